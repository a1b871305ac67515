"""The stages of dvc.yaml, one script each: `python -m stages.NAME`."""

from tinylm.base.starting import start_command

start_command()

"""What `dvc repro` runs and what it leaves alone: from nothing, unchanged, after one edit of each section, and back."""

import subprocess
import sys

from ruamel.yaml import YAML

import pytest

from pathlib import Path
import runpy

TABLE = runpy.run_path(str(Path(__file__).with_name("rerun_table.py")))
STAGES, RERUNS = TABLE["STAGES"], TABLE["RERUNS"]

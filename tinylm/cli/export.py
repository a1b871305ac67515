"""Write the model in a form that transformers or llama.cpp loads.

Format transformers: GPT-2, or GPT-NeoX with rotary positions, which stock transformers runs without
other code. Format tinylm: the weights as they are and the Python files of the model, which run
with trust_remote_code=True. Format gguf: model.gguf for llama.cpp, a GPT-2.
"""

import argparse
from pathlib import Path

from tinylm.base.printable import visible
from tinylm.cli.command import add_model_options

EXAMPLES = """\
  tinylm export exports/storybook
  tinylm export exports/own --format tinylm
  tinylm export exports/storybook-gguf --format gguf
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR, the format and the model."""
    add = parser.add_argument
    add("folder", metavar="DIR", help="folder: new, empty, or an earlier export to replace")
    formats = ("transformers", "tinylm", "gguf")
    add(
        "--format", choices=formats, default=formats[0], help="of the weights (default %(default)s)"
    )
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then print its architecture and what it leaves out."""
    from tinylm.exchange.export import export_folder
    from tinylm.exchange.generation import untranslated
    from tinylm.exchange.loading import load_trained

    trained = load_trained(arguments.models, arguments.vocab)
    form = export_folder(Path(arguments.folder), trained, arguments.format)
    folder = visible(arguments.folder)
    print(f"{folder}: {form.architecture}, {form.parameters:,} parameters")
    if arguments.format == "gguf":
        print("llama.cpp knows neither section decode nor the tokens that must never be generated")
        return
    for line in untranslated(trained.decode):
        print(f"generate() of transformers lacks {line}")
    trust = ", trust_remote_code=True" if arguments.format == "tinylm" else ""
    print(f'AutoModelForCausalLM.from_pretrained("{folder}"{trust}) loads it')

"""Write the model in a form that transformers or llama.cpp loads.

The format transformers is GPT-2, or GPT-NeoX for rotary positions, which stock transformers runs
without other code. The format tinylm has the weights as trained and the Python files of the model,
which need trust_remote_code=True. The format gguf is a GPT-2 for llama.cpp.
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
    add("--format", choices=formats, default=formats[0], help="file format (default %(default)s)")
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then print its architecture and what it leaves out."""
    from tinylm.bench.settings import length_penalty
    from tinylm.exchange.export import export_folder
    from tinylm.exchange.generation import beam_search_call, untranslated
    from tinylm.params.presets.write import params_or_preset
    from tinylm.run.trained_model import load_trained

    trained = load_trained(arguments.models, params_or_preset(), arguments.vocab)
    is_gguf = arguments.format == "gguf"
    search = "" if is_gguf else beam_search_call(length_penalty(trained.params))  # may be refused
    form = export_folder(Path(arguments.folder), trained, arguments.format)
    folder = visible(arguments.folder)
    print(f"{folder}: {form.architecture}, {form.parameters:,} parameters")
    print(form.check)
    if is_gguf:
        print("llama.cpp ignores section decode, and does not mask <sos>, <pad> and <unk>")
        return
    for line in untranslated(trained.decode):
        print(f"transformers' generate() lacks {line}")
    print(f"tinylm's beam search is {search}")
    trust = ", trust_remote_code=True" if arguments.format == "tinylm" else ""
    print(f'AutoModelForCausalLM.from_pretrained("{folder}"{trust}) loads it')

"""tinylm export: the trained model as a folder for the library transformers."""

import argparse
from pathlib import Path

from tinylm.exchange.loading import load


def _use(folder: str, own: bool) -> str:
    trust = ", trust_remote_code=True" if own else ""
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        f'model = AutoModelForCausalLM.from_pretrained("{folder}"{trust})\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{folder}"{trust})'
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, then say which architecture it is, what it leaves out and how it is used."""
    from tinylm.exchange.export import Trained, export_folder
    from tinylm.exchange.generation import untranslated

    trained = Trained(arguments.models, arguments.vocab, *load(arguments.models, arguments.vocab))
    made = export_folder(Path(arguments.folder), trained, arguments.format)
    own = arguments.format == "tinylm"
    ours = sum(parameter.numel() for parameter in trained.model.parameters())
    size = "" if own or made.parameters == ours else f", {made.parameters:,} parameters for {ours:,}"
    print(f"{arguments.folder}: {made.architecture}{size}")
    if own:
        print("it runs the code in its modeling_tinylm.py: transformers asks for trust_remote_code=True")
    for line in untranslated(trained.decode):
        print(f"generate() of transformers lacks {line}")
    print(_use(arguments.folder, own))

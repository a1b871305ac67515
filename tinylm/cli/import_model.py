"""tinylm import: a model that was exported, back among the files of the pipeline."""

import argparse


def run(arguments: argparse.Namespace) -> None:
    """Copy the originals that the export carries to --models and --vocab, checked, to the same bytes."""
    from tinylm.exchange.originals import restore

    parameters, tokenizer = restore(arguments.folder, arguments.models, arguments.vocab, arguments.force)
    print(f"{arguments.models}: {parameters:,} parameters")
    print(f"{arguments.vocab}: {len(tokenizer):,} ids, {tokenizer.kind}")
    print("tinylm generate and attention use them as they are; dvc repro would make a vocabulary and train anew")

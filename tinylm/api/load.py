"""`tinylm.load`: a trained model as an object, read from its folder."""

from pathlib import Path

from tinylm.api.language_model import LanguageModel
from tinylm.exchange.loading import load_parts


def load(
    folder: str | Path = "models", vocab: str | Path | None = None, epoch: float | None = None
) -> LanguageModel:
    """The trained model in a folder: `models` of a run, or what `tinylm export` wrote.

    vocab: its tokenizer.json. By default the export's own, or data/vocab/tokenizer.json next to
    the folder.
    epoch: the checkpoint after this many epochs (`train.keep_epochs`); None: the final weights.

    Section `decode` of params.yaml in the working folder gives the defaults of decoding, and
    `runtime.device` the device; without that file, the preset storybook does. Raises InputError,
    which names the file.
    """
    return LanguageModel(*load_parts(folder, vocab, epoch))

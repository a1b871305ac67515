"""`tinylm.load`: a trained model as an object, read from its folder."""

from pathlib import Path

from tinylm.api.language_model import LanguageModel
from tinylm.exchange.loading import load_trained, repairs_quotes


def load(
    folder: str | Path = "models", vocab: str | Path | None = None, epoch: float | None = None
) -> LanguageModel:
    """The trained model in a folder: `models` of a run, or what `tinylm export` wrote.

    vocab: its tokenizer.json. By default the export's own, or data/vocab/tokenizer.json next to
    the folder.
    epoch: the checkpoint after this many epochs (`train.keep_epochs`); None: the final weights.

    params.yaml in the working folder gives the defaults of decoding (section `decode`) and the
    device (`runtime.device`). Its `data.repair_quotes` decides whether quotation marks in a wrong
    encoding are repaired in every text. Without that file, the preset storybook gives all three.
    Raises InputError, which names the file.
    """
    trained = load_trained(folder, vocab, epoch)
    return LanguageModel(trained.model, trained.tokenizer, trained.decode, repairs_quotes())

"""A folder as a run leaves it, with a small model of random weights."""

from pathlib import Path

import torch
import yaml

from tests.support.small import DECODE as SMALL_DECODE
from tests.support.small import model_settings, words_of
from tinylm.base.config import load_params
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.params.presets.write import FOLDER

CONTEXT = 17
DECODE = SMALL_DECODE | {"top_k": 50}
TEXT = 'Once upon a time the cat said, "hello, dog!" and the dog sat down. It\'s (quite) fun.'


def make_run(folder: Path, punctuation: str) -> None:
    """models/ and data/vocab/ of a random model, params.yaml of the storybook."""
    tokenizer = words_of([TEXT], punctuation=punctuation)
    tokenizer.save(folder / "data/vocab/tokenizer.json")
    torch.manual_seed(1)
    shape = model_settings(context=CONTEXT, tied_output=False)
    model = TinyLM(shape, torch.randn(len(tokenizer), 20))
    with torch.no_grad():  # <eos> scores less, so that texts grow
        end = model.output.weight[tokenizer.eos_id]
        model.final_norm.bias.sub_(3.0 * end / end.square().sum())
    save_model(folder / "models", model, layout="stories")
    params = load_params(FOLDER / "storybook.yaml")
    params["runtime"]["threads"] = 1
    params["decode"] |= DECODE
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")

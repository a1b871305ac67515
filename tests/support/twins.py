"""Small models trained on stories of the storybook, to compare with a twin whose stories were changed."""

from collections.abc import Sequence
from pathlib import Path

import torch

from tinylm.base.config import load_params, read_section
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.loop import train
from tinylm.train.preparation import new_run
from tinylm.train.settings import TrainSettings
from tinylm.vocab.token_store import TokenStore, write_store
from tinylm.vocab.tokenizer import Tokenizer

PRESET = Path(__file__).parents[2] / "tinylm/presets/storybook.yaml"


def trained_on(
    texts: Sequence[str], tokenizer: Tokenizer, folder: Path, width: int, tokens: int
) -> TinyLM:
    """The recipe of preset storybook at this width and budget, from random vectors, on these texts."""
    params = load_params(PRESET)
    params["model"]["feed_forward"] = 4 * width
    params["train"] |= {"tokens": tokens, "validate_every": 10_000}
    stories = [tokenizer.encode_story(text) for text in texts]
    splits = {"train": stories, "held_out": stories[:10]}
    stores = {}
    for split, of_split in splits.items():
        write_store(folder, split, of_split, len(tokenizer))
        stores[split] = TokenStore(folder, split)
    vectors = 0.02 * torch.randn(len(tokenizer), width, generator=torch.Generator().manual_seed(1))
    run = new_run(
        read_section(params, "model", ModelSettings),
        read_section(params, "train", TrainSettings),
        vectors,
        stores,
        tokenizer.pad_id,
        "cpu",
        threads=1,
        unk_id=tokenizer.unk_id,
    )
    train(run)
    return run.model.eval()

"""Where the model reads a fact of a story: the fact is swapped in the residual stream, layer by layer.

A story and its twin differ in one name, of the hero or of the first place, wherever it is mentioned. In the story's forward
pass, the twin's residual stream before a layer replaces the story's at the mentions only (activation patching). Where the
name comes again, the prediction is compared with the generator's for the story and for the twin. A patch before layer 0
turns the story into its twin; one after the last layer changes no later word. Run it after dvc repro; it writes swap.csv.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from studies.records import FOLDER
from tinylm.base import paths
from tinylm.base.command import Parser, run_command
from tinylm.base.config import InputError
from tinylm.base.files import write_bytes
from tinylm.evaluate.truth import Position, read_words, token_measures, true_tokens
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.storybook.language import END
from tinylm.text.stories import read_texts
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

STORIES = 50
OPTIONS = 40  # a fact is the first word of its kind at which the generator has more possible words
FACTS = ("person", "place")
CANDIDATES = 20  # other names that are tried for a twin


class Pair(NamedTuple):
    """A story and its twin as positions, and the numbers of the words at which the fact is mentioned."""

    story: list[Position]
    twin: list[Position]
    mentions: list[int]


def pair(words: Sequence[str], kind: str, known: set[str], rng: random.Random) -> Pair | None:
    """The story with a twin that the generator can write too; None if its fact comes once, or none fits."""
    story = read_words([*words, END])[:-1]
    facts = [p for p in story if p.following.kind == kind and len(p.following.probs) > OPTIONS]
    if not facts:
        return None
    mentions = [number for number, word in enumerate(words) if word == facts[0].word]
    others = sorted(known & facts[0].following.probs.keys() - set(words))
    for other in rng.sample(others, min(CANDIDATES, len(others))):
        swapped = [other if number in mentions else words[number] for number in range(len(words))]
        twin = read_words([*swapped, END])[:-1]
        if len(twin) == len(story) and len(mentions) > 1:
            return Pair(story, twin, mentions)
    return None


def _patch(stream: Tensor, at: list[int], _: object, inputs: tuple[Tensor, ...]) -> Any:
    x = inputs[0].clone()
    x[:, at] = stream[:, at]
    return (x, *inputs[1:])


@torch.no_grad()
def streams(model: TinyLM, ids: Tensor) -> list[Tensor]:
    """The residual stream before each layer, and after the last.  ids (T,) -> (1, T, D) each"""
    found: list[Tensor] = []
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
        for module in (*model.blocks, model.final_norm)
    ]
    model.hidden_states(ids[None])
    for hook in hooks:
        hook.remove()
    return found


@torch.no_grad()
def log_probs_with(model: TinyLM, ids: Tensor, layer: int, stream: Tensor, at: list[int]) -> Tensor:
    """ln of the probabilities (T, V) where another stream replaces a layer's input at these positions."""
    module = [*model.blocks, model.final_norm][layer]
    hook = module.register_forward_pre_hook(partial(_patch, stream, at))
    logits = model.logits(model.hidden_states(ids[None])[0])
    hook.remove()
    return torch.log_softmax(logits.double(), dim=-1)


def patched(model: TinyLM, ids: Tensor, twin: Tensor, at: list[int]) -> Iterator[np.ndarray]:
    """ln of the probabilities (T, V) after a patch at these positions: before each layer, and after the last."""
    for layer, stream in enumerate(streams(model, twin)):
        yield log_probs_with(model, ids, layer, stream, at).numpy()


def distances(model: TinyLM, tokenizer: Tokenizer, found: Pair) -> Iterator[dict[str, Any]]:
    """KL(p || q) in nats for each layer, with the p of the story and of the twin, at each later mention."""
    texts = [" ".join(word for word, _ in text[:-1]) for text in (found.story, found.twin)]
    ids, twin = (torch.tensor(tokenizer.encode_story(text)) for text in texts)
    at = [number + 1 for number in found.mentions]  # <sos> is first
    for layer, log_probs in enumerate(patched(model, ids[:-1], twin[:-1], at)):
        columns = {}
        for name, text in (("story", found.story), ("twin", found.twin)):
            measures = token_measures(true_tokens(tokenizer, text), log_probs, ids[1:].numpy())
            columns[name] = measures["kl"]
        for number in found.mentions[1:]:
            yield {"layer": layer} | {name: column[number] for name, column in columns.items()}


def main() -> None:
    Parser(prog="python -m studies.swap", description=__doc__).parse_args()
    model, _ = load_model(paths.MODELS)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    texts = list(read_texts(paths.STORIES, "evaluation"))[:STORIES]
    rng = random.Random(1)
    rows = []
    for kind in FACTS:
        for text in texts:
            words = tokenizer.split(text)
            found = pair(words, kind, set(tokenizer.tokens), rng)
            if found and len(words) < model.settings.context:
                rows += [{"fact": kind} | row for row in distances(model.eval(), tokenizer, found)]
    if not rows:
        raise InputError(
            f"{paths.MODELS}: no evaluation story that fits the context has a fact that can be exchanged"
        )
    grouped = pd.DataFrame(rows).groupby(["fact", "layer"])
    table = grouped.mean().round(3).assign(mentions=grouped.size())
    write_bytes(FOLDER / "swap.csv", table.to_csv().encode())
    print(table)


if __name__ == "__main__":
    sys.exit(run_command(main))

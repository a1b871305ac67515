"""A run computed a second time in plain code: ids, every update, and the loss of any text.

The model and its updates are those of docs/tutorial/one_file.py, which uses nothing of tinylm.
"""

import copy
import math
from collections import Counter
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.support.stages import ROOT, read
from tinylm.base.config import load_params
from tinylm.learn.worker import load

ONE_FILE = ROOT / "docs/tutorial/one_file.py"
OTHER_NAMES = {"batch_size": "BATCH", "tokens": "BUDGET", "clip_norm": "CLIP"}


def near(value: Any, rel: float = 1e-4) -> Any:
    return pytest.approx(value, rel=rel, abs=1e-5)


def assert_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Without the biases of keys, which softmax takes away: their gradient is rounding."""
    for name, tensor in found.items():
        wanted = expected[name]
        if name.endswith("qkv.bias"):
            tensor, wanted = (torch.cat([t.chunk(3)[0], t.chunk(3)[2]]) for t in (tensor, wanted))
        torch.testing.assert_close(tensor, wanted, rtol=1e-3, atol=1e-4)


def constants(params: dict[str, Any], one: Any) -> dict[str, Any]:
    """The settings that one_file has, as it names them."""
    values = {}
    for key, value in (params["model"] | params["train"]).items():
        name = OTHER_NAMES.get(key, key.upper())
        if hasattr(one, name):
            values[name] = value
    return values


class PlainRun:
    """A finished run in a folder: its settings, and the numbers that follow from them.

    words, ids: of each story by split, without and with <sos> and <eos>.
    """

    def __init__(self, folder: Path, **train: Any) -> None:
        """train: settings of section train that are not those of params.yaml."""
        self.folder = folder
        self.params = load_params(folder / "params.yaml")
        self.train = self.params["train"] | train
        self.one = load(ONE_FILE, "one_file")
        vars(self.one).update(constants(self.params | {"train": self.train}, self.one))
        self.one.learning_rate = self.share_of_rate
        self.words = {}
        for split in ("train", "held_out", "evaluation"):
            texts = pd.read_json(folder / f"data/stories/{split}.jsonl", lines=True)["text"]
            self.words[split] = [text.lower().replace(".", "").split() for text in texts]
        self.counts = Counter(chain(*self.words["train"]))
        least = self.params["vocab"]["min_count"]
        frequent = [word for word in sorted(self.counts) if self.counts[word] >= least]
        frequent.sort(key=lambda word: -self.counts[word])
        self.vocabulary = ["<sos>", "<eos>", "<pad>", "<unk>", *frequent]
        number = {word: index for index, word in enumerate(self.vocabulary)}
        self.ids = {}
        for split, stories in self.words.items():
            self.ids[split] = [[0, *(number.get(w, 3) for w in story), 1] for story in stories]
        self.tokens_per_epoch = sum(len(story) - 1 for story in self.ids["train"])

    def json(self, name: str) -> Any:
        return read(self.folder / f"{name}.json")

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_csv(self.folder / f"{name}.csv", keep_default_na=False)

    def assert_plotted(self, table: str, series: str, expected: Any, *columns: str) -> None:
        """A series of a table of plots/ has these rows."""
        found = self.table(f"plots/{table}")
        rows = found.loc[found["series"] == series, [*(columns or ("step", "tokens")), "value"]]
        np.testing.assert_allclose(rows, expected, rtol=1e-4, err_msg=f"{table}, {series}")

    def model(self, weights: str = "models/model") -> Any:
        """one_file's model with the weights of a file."""
        model = self.one.new_model(self.folder / "data")
        named = {}
        for name, tensor in load_file(self.folder / f"{weights}.safetensors").items():
            named[name.replace(".attention.", ".").replace(".feed_forward.", ".")] = tensor
        model.scale = named.pop("embedding_scale")
        model.load_state_dict(named)
        return model

    @torch.no_grad()
    def nats(self, model: Any, ids: list[int]) -> list[float]:
        """-ln p of each token of a text but the first, given those before it in its row."""
        result = []
        for row in self.one.make_rows([ids]):
            log_p = model(torch.tensor([row[:-1]])).double().log_softmax(-1)[0]
            result += [-log_p[place, token].item() for place, token in enumerate(row[1:])]
        return result

    def loss(self, model: Any, texts: list[list[int]]) -> float:
        """Nats per token of all texts."""
        return mean(chain(*(self.nats(model, ids) for ids in texts)))

    @torch.no_grad()
    def attention(self, model: Any, ids: list[int]) -> np.ndarray:
        """Weights of each layer and head, (N, H, T, T)."""
        x = model.embedding[ids] * model.scale + model.positions[: len(ids)]
        later = torch.ones(len(ids), len(ids)).triu(1).bool()
        maps = []
        for block in model.blocks:
            qkv = block.qkv(block.norm1(x)).unflatten(-1, (3, self.one.HEADS, -1))
            queries, keys, _ = qkv.permute(1, 2, 0, 3)
            scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
            maps.append(scores.masked_fill(later, -math.inf).softmax(-1))
            x = block(x[None])[0]
        return torch.stack(maps).numpy()

    def share_of_rate(self, progress: float) -> float:
        """Of the peak learning rate, at this share of the budget: a linear start, then a cosine."""
        warmup, final = self.train["warmup"], self.train["final_lr"]
        if progress < warmup:
            return progress / warmup
        angle = math.pi * (progress - warmup) / (1 - warmup)
        return final + (1 - final) * (1 + math.cos(angle)) / 2

    def mini_batch(self, number: int) -> tuple[Tensor, Tensor]:
        """Mini-batch `number` of the run, some of its words unknown."""
        one = self.one
        rows = one.make_rows(self.ids["train"])
        epoch, place = divmod(number, math.ceil(len(rows) / one.BATCH))
        order = one.order_of_batches(rows, epoch)[place]
        inputs, targets = one.make_batch([rows[row] for row in order])
        seed = one.seed_for(one.seed_for(one.SEED, "order"), "unknown", number)
        drawn = np.random.default_rng(seed).random(inputs.shape) < self.train["unknown"]
        for words, is_drawn in zip(inputs, drawn, strict=True):
            before = words.tolist()
            for column, word in enumerate(before):
                if is_drawn[column] and word > 3 and before.count(word) == 1:
                    words[column] = 3
        return inputs, targets

    def update(self, number: int) -> tuple[Tensor, Tensor]:
        """All mini-batches of an update as one."""
        first = number * self.train["accumulation"]
        parts = [self.mini_batch(first + part) for part in range(self.train["accumulation"])]
        inputs, targets = (chain(*side) for side in zip(*parts))
        pad = torch.nn.utils.rnn.pad_sequence
        return pad(list(inputs), True, padding_value=2), pad(list(targets), True, padding_value=-1)

    @cached_property
    def training(self) -> SimpleNamespace:
        """Every update: lists of loss, rate and norm; and all validations.

        tokens, weights: by number of updates. stopped_early: whether patience ended the run.
        """
        one = self.one
        trainer = one.Trainer(one.new_model(self.folder / "data"))
        model = trainer.model
        run = SimpleNamespace(tokens=[0], loss=[], rate=[], norm=[], held_out=[], weights=[])
        every, patience = self.train["validate_every"], self.train["patience"] or math.inf
        while True:
            number = trainer.updates
            run.weights.append(copy.deepcopy(model.state_dict()))
            epochs = [tokens // self.tokens_per_epoch for tokens in run.tokens[-2:]]
            inputs, targets = self.update(number)
            tokens = int((targets >= 0).sum())
            is_last = trainer.tokens + tokens > one.BUDGET
            if epochs[0] < epochs[-1] or is_last or number % every == 0:
                loss = self.loss(model, self.ids["held_out"])
                run.held_out.append((number, trainer.tokens, loss))
            run.best = min(run.held_out, key=lambda validation: validation[2])
            worse = number // every - run.best[0] // every  # validations since the best one
            run.stopped_early = worse >= patience
            if is_last or run.stopped_early:
                return run
            loss = one.loss_sum(model(inputs), targets) / tokens
            grads = torch.autograd.grad(loss, list(model.parameters()))
            run.norm.append(math.sqrt(sum(grad.double().square().sum() for grad in grads)))
            middle = (trainer.tokens + tokens / 2) / one.BUDGET
            run.rate.append(one.LR * one.learning_rate(middle))
            run.loss.append(trainer.update(inputs, targets))
            run.tokens.append(trainer.tokens)

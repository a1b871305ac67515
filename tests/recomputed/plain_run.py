"""A run computed a second time in plain code: ids, every update, and the loss of any text.

The model and its updates are those of docs/tutorial/one_file.py, which uses nothing of tinylm.
"""

import json
import math
from collections import Counter
from functools import cached_property
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from tests.support.stages import ROOT, read
from tinylm.learn.worker import load

ONE_FILE = ROOT / "docs/tutorial/one_file.py"


def constants(params: dict[str, Any]) -> dict[str, Any]:
    """The settings as one_file names them."""
    names = {
        "model": {"LAYERS": "layers", "HEADS": "heads", "FEED_FORWARD": "feed_forward", "CONTEXT": "context"},
        "train": {
            "BATCH": "batch_size", "BUDGET": "tokens", "LR": "lr", "MUON_LR": "muon_lr",
            "WEIGHT_DECAY": "weight_decay", "CLIP": "clip_norm", "SEED": "seed",
        },
    }  # fmt: skip
    values = {}
    for section, keys in names.items():
        values |= {name: params[section][key] for name, key in keys.items()}
    return values


class PlainRun:
    """A finished run in a folder: its settings, and the numbers that follow from them.

    words, ids: of each story by split, without and with <sos> and <eos>.
    """

    def __init__(self, folder: Path, **train: Any) -> None:
        """train: settings of section train that are not those of params.yaml."""
        self.folder = folder
        self.params: dict[str, Any] = yaml.safe_load((folder / "params.yaml").read_text())
        self.train = self.params["train"] | train
        self.one = load(ONE_FILE, "one_file")
        for name, value in constants(self.params | {"train": self.train}).items():
            setattr(self.one, name, value)
        self.one.learning_rate = self.share_of_rate
        self.words = {}
        for split in ("train", "held_out", "evaluation"):
            lines = (folder / f"data/stories/{split}.jsonl").read_text().splitlines()
            texts = [json.loads(line)["text"] for line in lines]  # the only mark is a full stop
            self.words[split] = [text.lower().replace(".", "").split() for text in texts]
        self.counts = Counter(word for story in self.words["train"] for word in story)
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
        return mean(value for ids in texts for value in self.nats(model, ids))

    @torch.no_grad()
    def attention(self, model: Any, ids: list[int]) -> np.ndarray:
        """Weights of each layer and head, (N, H, T, T)."""
        maps: list[Tensor] = []

        def keep(_: Any, __: Any, qkv: Tensor) -> None:
            queries, keys, _ = qkv[0].unflatten(-1, (3, self.one.HEADS, -1)).permute(1, 2, 0, 3)
            scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
            later = torch.ones(len(ids), len(ids)).triu(1).bool()
            maps.append(scores.masked_fill(later, -math.inf).softmax(-1))

        hooks = [block.qkv.register_forward_hook(keep) for block in model.blocks]
        model(torch.tensor([ids]))
        for hook in hooks:
            hook.remove()
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
        inputs, targets = ([row for part in side for row in part] for side in zip(*parts))
        pad = torch.nn.utils.rnn.pad_sequence
        return pad(inputs, True, padding_value=2), pad(targets, True, padding_value=-1)

    @cached_property
    def training(self) -> SimpleNamespace:
        """Every update: lists of tokens so far, loss, rate and norm; and all validations.

        weights: by number of updates. stopped_early: whether patience ended the run.
        """
        one = self.one
        trainer = one.Trainer(one.new_model(self.folder / "data"))
        model = trainer.model
        run = SimpleNamespace(tokens=[], loss=[], rate=[], norm=[], held_out=[], weights=[])
        every, patience = self.train["validate_every"], self.train["patience"] or math.inf
        while True:
            number = trainer.updates
            run.weights.append({name: p.clone() for name, p in model.state_dict().items()})
            epochs = [tokens // self.tokens_per_epoch for tokens in [0, 0, *run.tokens][-2:]]
            inputs, targets = self.update(number)
            tokens = int((targets >= 0).sum())
            is_last = trainer.tokens + tokens > one.BUDGET
            if epochs[0] < epochs[1] or is_last or number % every == 0:
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

"""python -m tinylm.learn.use FOLDER FILE [UPDATES]: runs the project twice, with its own part and
with the student's.

use.py in the exercise's folder defines what is run (RUN), which settings change (SETTINGS), and
what replaces what: `replacements(student)` gives {dotted name: new object}. A clinic may instead
have `measure(student)`, which returns such a run itself. Both runs compute in float64, so that rounding
stays far below what a mistake changes. They read what the stages wrote, and write nothing there.
"""

import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pandas as pd
import torch

from tinylm.base import paths
from tinylm.base.config import InputError, load_params, read_section
from tinylm.base.files import write_bytes
from tinylm.decoding import sampling
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids, encode_prompt, generate_text
from tinylm.host.command import CommandFailed, guard
from tinylm.learn.worker import explain, load
from tinylm.model.checkpoint import load_model
from tinylm.model.ops import REFERENCE
from tinylm.model.settings import ModelSettings
from tinylm.train import split_loss
from tinylm.train.muon import Muon
from tinylm.train.preparation import SPLITS, assemble
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import scoring_batches
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer

UPDATES = 50  # of each training
TRAIN_S = 30.0  # after which such a training ends early, on a busy machine
USUAL = {
    "precision": "fp32",
    "tokens": 80_000,
    "epochs": None,
    "stop_after": None,
    "validate_every": 10,
}
BOUND = 1e-8  # relative difference that rounding may reach; docs/teach.md has its measurement
SHOWN = (1, 2, 5, 10, 20, 30, 40, 50, 100, 200)  # steps of the table that is printed
STARTS = ("once upon a time", "the little", "one morning")

Run = dict[str, Any]  # "steps", {name: one number, or None, for each step}; "text", what it wrote


def train(changes: dict[str, Any], updates: int = UPDATES, stores: Any = None) -> Run:
    """Train for this many updates: losses at each step, greedy text at the end.

    stores: {split: TokenStore} instead of those of stage vocab.
    """
    params = load_params()
    sections = {
        "model": params["model"] | changes.get("model", {}),
        "train": params["train"] | USUAL | changes.get("train", {}),
    }
    model = read_section(sections, "model", ModelSettings)
    settings = read_section(sections, "train", TrainSettings)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    stores = stores or {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    shape = (settings.layout, settings.batch_size, model.context, tokenizer.pad_id)
    with mock.patch("tinylm.train.preparation.training_ops", return_value=REFERENCE):
        parts = assemble(model, settings, matrix, stores, tokenizer.pad_id, "cpu", threads=1)
    trainer = Trainer(parts.model.double(), parts.batches, settings)
    for optimizer, _ in trainer.optimizers:
        if isinstance(optimizer, Muon):
            optimizer.dtype = torch.float64
    steps: dict[str, list[float | None]] = {"loss": []}
    end = time.monotonic() + (TRAIN_S if updates <= UPDATES else float("inf"))
    while trainer.updates < updates and time.monotonic() < end:
        upcoming = trainer.next_batches()
        if trainer.tokens + sum(batch.tokens for batch in upcoming) > trainer.budget:
            break
        steps["loss"].append(trainer.update(upcoming)[0])
        for name in sorted(set(stores) - {"train"}):
            loss = None
            if (trainer.updates - 1) % settings.validate_every == 0:
                some = itertools.islice(scoring_batches(stores[name], *shape), 4)
                nats, count = split_loss.split_loss(parts.model, some)
                loss = nats / count
            steps.setdefault(name, []).append(loss)
    greedy = DecodeSettings().greedy()
    text = generate_text(parts.model.eval(), tokenizer, STARTS, greedy, max_new_tokens=40)
    return {"steps": steps, "text": text}


def generate(changes: dict[str, Any], updates: int = UPDATES) -> Run:
    """Continue three prompts past the context with the trained model of this folder."""
    model, _ = load_model(paths.MODELS)
    model.double()
    tokenizer = open_tokenizer(paths.TOKENIZER)
    settings = DecodeSettings(temperature=0.8, top_k=50, top_p=0.9)
    texts = []
    log_probs: list[float] = []
    for prompt in STARTS:
        ids = encode_prompt(tokenizer, prompt, "the prompt")
        (new,) = sampling.generate(
            model,
            [ids],
            settings,
            max_new_tokens=model.settings.context + 30,
            stop_at_eos=False,
            eos_id=tokenizer.eos_id,
            banned=banned_ids(tokenizer),
            with_log_probs=True,
        )
        texts.append(tokenizer.decode([*ids, *new.ids]))
        log_probs += new.log_probs
    return {"steps": {"log_prob": log_probs}, "text": texts}


RUNS: dict[str, Callable[..., Run]] = {"train": train, "generate": generate}


@contextlib.contextmanager
def replaced(objects: dict[str, Any]) -> Iterator[None]:
    """Replace what has these dotted names by the objects while the block runs."""
    with contextlib.ExitStack() as stack:
        for name, value in objects.items():
            stack.enter_context(mock.patch(name, value))
        yield


def load_apart(file: Path) -> ModuleType:
    """The student's file, with a copy of tinylm of its own if it imports tinylm, as our reference does.

    So the parts of tinylm that the file calls are never those that it replaces.
    """
    with mock.patch.dict(sys.modules):
        for name in list(sys.modules):
            if name.partition(".")[0] == "tinylm":
                del sys.modules[name]
        return load(file, "student")


def both_runs(plan: ModuleType, student: ModuleType, updates: int = UPDATES) -> tuple[Run, Run]:
    """(the run with our part, the run with the student's)"""
    if hasattr(plan, "measure"):
        return plan.measure(None, updates), plan.measure(student, updates)
    run = functools.partial(RUNS[plan.RUN], getattr(plan, "SETTINGS", {}))
    usual = plan.usual() if hasattr(plan, "usual") else {}
    with replaced(usual):
        ours = run(updates)
    with replaced(usual | plan.replacements(student)):
        return ours, run(updates)


def verdict(ours: Run, theirs: Run) -> str:
    """identical, within the bound, or different: with the first step at which they differ."""
    is_same = True
    for name, values in ours["steps"].items():
        for step, (one, other) in enumerate(zip(values, theirs["steps"][name], strict=False), 1):
            if one == other:
                continue
            is_same = False
            if not abs(one - other) <= BOUND * abs(one):  # NaN too
                return f"different: {name} number {step} is {other:.9g}, ours is {one:.9g}"
    if is_same:
        return "identical: every number is the same"
    return f"within a bound: every number agrees with ours to a relative {BOUND:g} (rounding)"


def main() -> None:
    """Both runs, the verdict, and exercises/NAME.csv and NAME.txt with their curves and texts."""
    folder, file = map(Path, sys.argv[1:3])
    updates = int(sys.argv[3]) if sys.argv[3:] else UPDATES
    try:
        plan = load(folder / "use.py", "use_of_exercise")
        ours, theirs = both_runs(plan, load_apart(file), updates)
    except (InputError, CommandFailed):
        raise
    except BaseException as error:
        lines, _ = explain(error, str(file))
        raise CommandFailed(f"your part ended the run: {'; '.join(lines)}") from error
    frame = pd.DataFrame(ours["steps"]).add_prefix("ours: ")
    frame = frame.join(pd.DataFrame(theirs["steps"]).add_prefix("yours: "))
    frame.index += 1
    table = frame.to_csv(index_label="step", float_format="%.6g")
    write_bytes(file.with_suffix(".csv"), table.encode())
    texts = "\n".join(["ours:", *ours["text"], "", "yours:", *theirs["text"], ""])
    write_bytes(file.with_suffix(".txt"), texts.encode())
    print(frame.loc[frame.index.isin([*SHOWN, len(frame)])].to_string(na_rep=""))
    print("yours wrote:", *(text[:300] for text in theirs["text"][:1]))
    print(verdict(ours, theirs))


if __name__ == "__main__":
    sys.exit(guard(main))

"""python -m tinylm.learn.use: runs the project twice, with its own part and with the student's.

use.py of an exercise says what is run (RUN), which settings change (SETTINGS), and what replaces
what: `replacements(student)` gives {dotted name: new object}. A clinic may instead have
`measure(student)`, which returns such a run itself. The runs read what the stages wrote, and write
nothing there.
"""

import contextlib
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from tinylm.base import paths
from tinylm.base.config import InputError, load_params, read_section
from tinylm.base.files import write_bytes
from tinylm.host.command import CommandFailed, guard
from tinylm.learn.course import Exercise
from tinylm.learn.grade import environment
from tinylm.learn.worker import load, own_lines

WHOLE_S = 88.0
TRAIN_S = 27.0  # for each of the two trainings
TOKENS = 250_000  # that the schedule spans
BOUND = 1e-4  # relative difference that rounding may reach
EXACT = 20  # updates after which rounding may have grown
VALIDATE_EVERY = 25
SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 400)  # steps of the table that is printed
STARTS = ("once upon a time", "the little", "one morning")

Run = dict[str, Any]  # "steps", {name: one number, or None, for each step}; "text", what it wrote


def compare(exercise: Exercise) -> None:
    """Run the project with the student's file in a process of its own.

    Raises InputError if it cannot be used, CommandFailed if it takes too long.
    """
    if not (exercise.folder / "use.py").is_file():
        raise InputError(f"{exercise.name} is no part of a run; tinylm exercise check grades it")
    if not exercise.file.is_file():
        raise InputError(f"{exercise.file} is missing; tinylm exercise start {exercise.name}")
    paths_of = [str(exercise.folder.resolve()), str(exercise.file.resolve())]
    command = [sys.executable, "-m", "tinylm.learn.use", *paths_of]
    try:
        done = subprocess.run(command, env=environment(), timeout=WHOLE_S, check=False)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{exercise.name}: ended after {WHOLE_S:g} s") from None
    if done.returncode:
        raise CommandFailed(f"{exercise.name}: the run failed")


@contextlib.contextmanager
def replaced(objects: dict[str, Any]) -> Iterator[None]:
    """Put the objects in the place of those with these dotted names while the block runs."""
    with contextlib.ExitStack() as stack:
        for name, value in objects.items():
            stack.enter_context(mock.patch(name, value))
        yield


def settings_of(changes: dict[str, dict[str, Any]]) -> tuple[Any, Any, int]:
    """(sections model and train of params.yaml with these changes, threads)"""
    from tinylm.model.settings import ModelSettings
    from tinylm.train.settings import TrainSettings

    params = load_params()
    usual = {"precision": "fp32", "tokens": TOKENS, "epochs": None, "stop_after": None}
    train = params["train"] | usual | changes.get("train", {})
    model = params["model"] | changes.get("model", {})
    sections = {"model": model, "train": train}
    return (
        read_section(sections, "model", ModelSettings),
        read_section(sections, "train", TrainSettings),
        params["runtime"]["threads"],
    )


def train(
    changes: dict[str, Any], objects: dict[str, Any], updates: int, stores: Any = None
) -> Run:
    """Train for TRAIN_S seconds or so many updates; losses at each step, greedy text at the end.

    stores: {split: TokenStore} instead of those of stage vocab.
    """
    import torch

    from tinylm.decoding.settings import DecodeSettings
    from tinylm.decoding.texts import generate_text
    from tinylm.model.ops import REFERENCE
    from tinylm.train import split_loss
    from tinylm.train.preparation import SPLITS, assemble
    from tinylm.train.trainer import Trainer
    from tinylm.vocab.batches import scoring_batches
    from tinylm.vocab.matrix_file import load_matrix
    from tinylm.vocab.token_store import TokenStore
    from tinylm.vocab.tokenizer import open_tokenizer

    model, settings, threads = settings_of(changes)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    stores = stores or {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    shape = (settings.layout, settings.batch_size, model.context, tokenizer.pad_id)
    steps: dict[str, list[float | None]] = {"loss": []}
    plain = {"tinylm.train.preparation.training_ops": lambda *_: REFERENCE}
    with replaced(plain | objects):
        parts = assemble(model, settings, matrix, stores, tokenizer.pad_id, "cpu", threads)
        trainer = Trainer(parts.model, parts.batches, settings)
        end = time.monotonic() + TRAIN_S
        while trainer.updates < updates and time.monotonic() < end:
            upcoming = trainer.next_batches()
            if trainer.tokens + sum(batch.tokens for batch in upcoming) > trainer.budget:
                break
            steps["loss"].append(trainer.update(upcoming)[0])
            for name in sorted(set(stores) - {"train"}):
                loss = None
                if trainer.updates % VALIDATE_EVERY in (0, 1):
                    some = itertools.islice(scoring_batches(stores[name], *shape), 4)
                    nats, count = split_loss.split_loss(parts.model, some)
                    loss = nats / count
                steps.setdefault(name, []).append(loss)
        greedy = DecodeSettings().greedy()
        text = generate_text(parts.model.eval(), tokenizer, STARTS, greedy, max_new_tokens=40)
    return {"steps": steps, "text": text}


def generate(changes: dict[str, Any], objects: dict[str, Any], updates: int) -> Run:
    """Continue three prompts past the context with the trained model of this folder."""
    from tinylm.decoding import sampling
    from tinylm.decoding.settings import DecodeSettings
    from tinylm.decoding.texts import banned_ids, encode_prompt
    from tinylm.model.checkpoint import load_model
    from tinylm.vocab.tokenizer import open_tokenizer

    model, _ = load_model(paths.MODELS)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    settings = DecodeSettings(temperature=0.8, top_k=50, top_p=0.9)
    texts = []
    log_probs: list[float] = []
    with replaced(objects):
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


RUNS = {"train": train, "generate": generate}


def both_runs(plan: ModuleType, student: ModuleType) -> tuple[Run, Run]:
    """(the run with our part, the run with the student's)"""
    if hasattr(plan, "measure"):
        return plan.measure(None), plan.measure(student)
    run = RUNS[plan.RUN]
    changes = getattr(plan, "SETTINGS", {})
    usual = plan.usual() if hasattr(plan, "usual") else {}
    ours = run(changes, usual, sys.maxsize)
    count = len(next(iter(ours["steps"].values()), []))
    return ours, run(changes, plan.replacements(student), count)


def verdict(ours: Run, theirs: Run) -> str:
    """identical, within the bound, or different: with the first step at which they differ."""
    compared = EXACT if "loss" in ours["steps"] else sys.maxsize
    is_same = True
    for name, values in ours["steps"].items():
        for step, (one, other) in enumerate(zip(values, theirs["steps"][name], strict=False), 1):
            if one == other:
                continue
            is_same = False
            if step <= compared and not abs(one - other) <= BOUND * abs(one):  # NaN too
                return f"different: {name} number {step} is {other:.6g}, ours is {one:.6g}"
    if is_same:
        return "identical: every number is the same"
    return f"within a bound: the first {EXACT} steps differ by less than {BOUND:g} (rounding)"


def main() -> None:
    """Both runs, the verdict, and exercises/NAME.csv and NAME.txt with their curves and texts."""
    import pandas as pd

    folder, file = map(Path, sys.argv[1:])
    try:
        plan = load(folder / "use.py", "use_of_exercise")
        ours, theirs = both_runs(plan, load(file, "student"))
    except (InputError, CommandFailed):
        raise
    except BaseException as error:
        lines = own_lines(error, str(file))
        raise CommandFailed(f"your part ended the run: {'; '.join(lines)}") from error
    columns = {}
    for whose, run in (("ours", ours), ("yours", theirs)):
        for name, values in run["steps"].items():
            columns[f"{whose} {name}"] = pd.Series(values, dtype=float)
    frame = pd.DataFrame(columns)
    frame.index += 1
    table = frame.to_csv(index_label="step", float_format="%.6g")
    write_bytes(file.with_suffix(".csv"), table.encode())
    write_bytes(file.with_suffix(".txt"), "\n\n".join([*theirs["text"], ""]).encode())
    print(frame.loc[frame.index.isin([*SHOWN, len(frame)])].to_string(na_rep=""))
    print("yours wrote:", *(text[:300] for text in theirs["text"][:1]))
    print(verdict(ours, theirs))


if __name__ == "__main__":
    sys.exit(guard(main))

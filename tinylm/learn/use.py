"""python -m tinylm.learn.use FOLDER FILE [UPDATES]: runs the project without, then with FILE.

FOLDER holds an exercise. Its use.py is imported as the module `plan`: `run(updates)` is the run, and
`replacements(student)` gives {dotted name: new object}. A dotted name may be plan.NAME, an object of
that use.py. Both runs compute in float64, so that rounding stays far below what a mistake changes.
They read what the stages wrote but not params.yaml, since the exercises are parts of the default
model, and write nothing there.
"""

import contextlib
import itertools
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pandas as pd
import torch

from tinylm.base import paths
from tinylm.base.command import CommandFailed, run_command
from tinylm.base.config import InputError, parse_yaml, read_section
from tinylm.base.files import write_bytes
from tinylm.decoding import sampling
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids, generate_text
from tinylm.learn.apart import OutOfTime, limit_cpu, stop_limit
from tinylm.learn.student import Surroundings, load_student
from tinylm.learn.worker import explain, load
from tinylm.model.checkpoint import load_model
from tinylm.model.ops import REFERENCE
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.params.presets.write import BASE, preset_text
from tinylm.train import validation
from tinylm.train.muon import Muon
from tinylm.train.preparation import SPLITS, TrainingData, new_run
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import scoring_batches
from tinylm.vocab.embedding.matrix_file import load_matrix
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

USUAL = {  # of section train, unless the exercise changes them
    "precision": "fp32",
    "tokens": 80_000,
    "epochs": None,
    "validate_every": 10,
}
BOUND = 1e-8  # largest relative difference that rounding can explain
UPDATES = 40  # of each training, unless the command says otherwise
MOST_S = 120.0  # of processor time, for both runs
STARTS = ("once upon a time", "the little", "one morning")

Run = tuple[pd.DataFrame, list[str]]  # a row of numbers for each step, and the texts that it wrote


class Watched:
    """The student's file as a plan sees it. calls: how often its functions were called."""

    calls = 0

    def __init__(self, student: Any) -> None:
        self.student = student

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.student, name)

        def counted(*values: Any) -> Any:
            self.calls += 1
            return function(*values)

        return counted


def train(
    updates: int,
    changes: dict[str, Any],
    stores: dict[str, TokenStore] | None = None,
    frozen: tuple[str, ...] = (),
) -> Run:
    """Train the default model for this many updates: losses at each step, greedy text at the end.

    Its heads divide the width of the vectors that stage vocab wrote.
    changes: {section: values} instead of the default ones. stores: instead of stage vocab's.
    frozen: ends of the names of parameters that stay as they are.
    """
    tokenizer = open_tokenizer(paths.TOKENIZER)
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    params = parse_yaml(preset_text(BASE), f"preset {BASE}")
    params["model"] |= changes.get("model", {})
    params["model"]["heads"] = math.gcd(params["model"]["heads"], matrix.shape[1])
    params["train"] |= USUAL | changes.get("train", {})
    model = read_section(params, "model", ModelSettings)
    settings = read_section(params, "train", TrainSettings)
    stores = stores or {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    with mock.patch("tinylm.train.preparation.training_ops", return_value=REFERENCE):
        data = TrainingData(stores, matrix, tokenizer.pad_id)
        parts = new_run(model, settings, data, "cpu", threads=1)
    for name, parameter in parts.model.named_parameters():
        if name.endswith(frozen):
            parameter.requires_grad_(False)
    trainer = Trainer(parts.model.double(), parts.batches, parts.settings)
    for optimizer, _ in trainer.optimizers:
        if isinstance(optimizer, Muon):
            optimizer.dtype = torch.float64
    batching = (settings.layout, settings.batch_size, model.context, tokenizer.pad_id)
    steps = []
    while trainer.updates < updates and trainer.tokens < trainer.budget:
        step = {"loss": trainer.update(trainer.batches_of(trainer.updates))[0]}
        if (trainer.updates - 1) % settings.validate_every == 0:
            for name in sorted(set(stores) - {"train"}):
                batches = itertools.islice(scoring_batches(stores[name], *batching), 4)
                nats, count = validation.split_loss(parts.model, batches)
                step[name] = nats / count
        steps.append(step)
    greedy = DecodeSettings().greedy()
    decoder = decoder_of(parts.model.eval(), tokenizer)
    text = generate_text(decoder, tokenizer, STARTS, greedy, max_new_tokens=40)
    return pd.DataFrame(steps), text


def decoder_of(model: TinyLM, tokenizer: Tokenizer) -> Decoder:
    """A decoder that uses the cache and drops the older half of a full window."""
    return Decoder(model=model, eos_id=tokenizer.eos_id, banned=banned_ids(tokenizer))


def generate() -> Run:
    """Continue a prompt past the context with the trained model of this folder: each new id, and ln p."""
    model, _ = load_model(paths.MODELS)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    settings = DecodeSettings(temperature=0.8, top_k=50, top_p=0.9)
    count = model.settings.context + 30
    ids = tokenizer.encode_prompt(STARTS[0], "the prompt")
    (new,) = sampling.generate(
        decoder_of(model.double(), tokenizer), [ids], settings,
        max_new_tokens=count, stop_at_eos=False, with_log_probs=True,
    )  # fmt: skip
    numbers = {"id": new.ids, "log_prob": new.log_probs}
    return pd.DataFrame(numbers), [tokenizer.decode([*ids, *new.ids])]


def both_runs(plan: ModuleType, student: Any, updates: int) -> tuple[Run, Run, int]:
    """(the run with our part, the run with the student's, how often it called the student's)"""
    ours = plan.run(updates)
    watched = Watched(student)
    with contextlib.ExitStack() as stack:
        for name, value in plan.replacements(watched).items():
            stack.enter_context(mock.patch(name, value))
        theirs = plan.run(updates)
    return ours, theirs, watched.calls


def verdict(ours: pd.DataFrame, theirs: pd.DataFrame, calls: int) -> str:
    """not used (no calls), identical, within the bound, or different, with the first step that differs."""
    if not calls:
        return "not used: the run never called your code"
    theirs = theirs.reindex_like(ours)
    if theirs.equals(ours):
        return "identical: every number is the same"
    differs = ~((theirs - ours).abs() <= BOUND * ours.abs()) & ours.notna()  # NaN differs too
    wrong = ours.columns[differs.any()]
    if wrong.empty:
        return f"equal up to rounding: every number agrees with ours to a relative {BOUND:g}"
    step = int(differs[wrong[0]].to_numpy().argmax())
    value = theirs[wrong[0]][step]
    expected = ours[wrong[0]][step]
    return f"different: {wrong[0]} number {step + 1} is {value:.9g}, ours is {expected:.9g}"


def main() -> None:
    """Print both runs and the verdict, and write their numbers next to FILE, as .csv."""
    folder = Path(sys.argv[1])
    file = Path(sys.argv[2]).resolve()
    updates = int(sys.argv[3]) if sys.argv[3:] else UPDATES
    limit_cpu(MOST_S)
    try:
        plan = load(folder / "use.py", "plan")
        surroundings = Surroundings()
        settings = surroundings.settings()
        student = load_student(file)
        surroundings.restore(settings)
        (ours, our_texts), (theirs, texts), calls = both_runs(plan, student, updates)
        stop_limit()
    except (InputError, CommandFailed):
        raise
    except OutOfTime as error:
        stop_limit()
        lines, _ = explain(error, file)
        reached = "; ".join(["stopped", *lines[-1:]])
        raise CommandFailed(f"more than {MOST_S:g} s of processor time: {reached}") from error
    except BaseException as error:
        stop_limit()
        lines, _ = explain(error, file)
        raise CommandFailed(f"your code stopped the run: {'; '.join(lines)}") from error
    frame = ours.add_prefix("ours: ").join(theirs.add_prefix("yours: "))
    frame.index += 1
    table = frame.to_csv(index_label="step", float_format="%.6g")
    write_bytes(file.with_suffix(".csv"), table.encode())
    print(frame.to_string(na_rep="", max_rows=12))
    print("\n".join(["ours:", *our_texts, "", "yours:", *texts, ""]))
    print(verdict(ours, theirs, calls))


if __name__ == "__main__":
    sys.exit(run_command(main))

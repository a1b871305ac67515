"""An entry of the race: what it may change, and its training with several seeds."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.frame import ROOT
from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError, load_params, parse_yaml
from tinylm.evaluate.truth import problem_with
from tinylm.params.params import Params, params_from
from tinylm.params.presets.write import BASE, merge, preset_text
from tinylm.run.result_files import read_stage
from tinylm.run.trained import Trained
from tinylm.text.stories import read_texts
from tinylm.vocab.open_tokenizer import open_tokenizer

TOKENS = 1_600_000  # at most, in training
CONTEXT = 192  # at least, so that every story that is judged fits
FEWEST_SEEDS = 3
# Of the texts of the storybook's default train stories, one per line.
STORIES_SHA256 = "ab4d8c377c1315c937db205e1413bfb36bd19552da4dd2a6507491e047073619"
# A patch changes none of these: they make the stories and judge the entry.
FIXED = ("benchmarks/", "tinylm/download/", "tinylm/evaluate/", "tinylm/storybook/", "tinylm/text/")


class Entry(NamedTuple):
    """folder: of the entry, with a run for each seed. params: its params.yaml, as text."""

    folder: Path
    params: str

    @property
    def code(self) -> Path:
        """The clone that trains it."""
        return self.folder / "code"


def git(folder: Path, *words: str) -> str:
    """The output of a git command in a folder. Raises CommandFailed with its last line."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        raise CommandFailed(f"git {words[0]}: {lines[-1]}")
    return done.stdout


# ---------------------------------------------------------------- rules


def problems_with_params(params: Params) -> Iterator[str]:
    """The rules that these settings break, each as "expected X, got Y"."""
    default = params_from(parse_yaml(preset_text(BASE), BASE))
    for section in ("data", "vocab"):
        fixed = vars(getattr(default, section))
        for key, got in vars(getattr(params, section)).items():
            if got != fixed[key]:
                yield f"{section}.{key}: expected the storybook's {fixed[key]}, got {got}"
    if params.embedding.source == "file":
        yield "embedding.source: expected vectors made from the train stories, got file"
    tokens = params.train.tokens
    if tokens is None or tokens > TOKENS:
        got_tokens = "null" if tokens is None else f"{tokens:,}"
        yield f"train.tokens: expected at most {TOKENS:,}, got {got_tokens}"
    if params.model.context < CONTEXT:
        yield f"model.context: expected at least {CONTEXT}, got {params.model.context}"


def problems_with_patch(files: list[str]) -> Iterator[str]:
    """The changed files that are not an entry's to change."""
    for file in files:
        if file.startswith(FIXED):
            yield f"patch: expected no change in {' '.join(FIXED)}, got {file}"


def train_texts(run: Path) -> list[str]:
    """The stories from which a run learns or chooses."""
    stories = run / paths.STORIES
    return [*read_texts(stories, "train"), *read_texts(stories, "held_out")]


def problems_with_run(run: Path) -> Iterator[str]:
    """The rules that a finished run breaks, whatever its settings say."""
    texts = list(read_texts(run / paths.STORIES, "train"))
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    if digest != STORIES_SHA256:
        yield f"train stories: expected SHA-256 {STORIES_SHA256[:12]}, got {digest[:12]}"
    tokenizer = open_tokenizer(run / paths.TOKENIZER)
    problem = problem_with(tokenizer)
    words = {word for text in texts for word in tokenizer.split(text)} if not problem else set()
    missing = len(words - set(tokenizer.tokens))
    if missing:
        problem = f"expected every word of the train stories, got all but {missing:,}"
    if problem:
        yield f"tokenizer: {problem}"
    tokens = read_stage(Trained, "train", run).tokens
    if tokens > TOKENS:
        yield f"training: expected at most {TOKENS:,} tokens, got {tokens:,}"


def refuse(place: Path, problems: Iterator[str]) -> None:
    """Raise InputError with a line for each problem."""
    found = [f"{place}: {problem}" for problem in problems]
    if found:
        raise InputError("\n".join(found))


def check_run(run: Path) -> None:
    """Raise InputError if a finished run breaks a rule."""
    refuse(run, problems_with_params(params_from(load_params(run / "params.yaml"))))
    refuse(run, problems_with_run(run))


# ---------------------------------------------------------------- training


def open_entry(source: Path, folder: Path) -> Entry:
    """Clone this commit into the entry's folder, with its params.yaml or its patch.

    Raises InputError for an entry that breaks a rule, or that is not the one in the folder.
    """
    try:
        text = source.read_text("utf-8")
    except OSError as error:
        raise InputError(f"ENTRY: expected params.yaml or a patch, got {source}: {error}") from None
    is_patch = source.suffix not in (".yaml", ".yml")
    entry = Entry(folder, text)
    kept = folder / "entry"  # what the entry was when its first seed was trained
    if not kept.exists():
        shutil.rmtree(entry.code, ignore_errors=True)
        git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(entry.code.absolute()))
        if is_patch:
            apply_patch(source, entry.code)
    elif kept.read_text("utf-8") != text:
        raise InputError(f"{folder}: expected the entry that it was made from, got another")
    if is_patch:
        entry = Entry(folder, (entry.code / "params.yaml").read_text("utf-8"))
    refuse(source, problems_with_params(params_from(parse_yaml(entry.params, str(source)))))
    kept.write_text(text, "utf-8")
    return entry


def apply_patch(patch: Path, code: Path) -> None:
    """Apply a git diff to a clone. Raises InputError if it changes what is fixed."""
    git(code, "apply", "--index", str(patch.absolute()))
    files = git(code, "diff", "--cached", "--name-only", "--no-renames").splitlines()
    refuse(patch, problems_with_patch(files))


def run_stages(entry: Entry, run: Path, seed: int, stages: list[str]) -> None:
    """Run stages in a folder with the entry's code. Raises CommandFailed."""
    run.mkdir(parents=True, exist_ok=True)
    params = merge(entry.params, json.dumps({"train": {"seed": seed}}), "seed")
    (run / "params.yaml").write_text(params, "utf-8")
    environment = os.environ | {"PYTHONPATH": str(entry.code.absolute())}
    for stage in stages:
        command = [sys.executable, "-m", f"stages.{stage}"]
        done = subprocess.run(command, cwd=run, env=environment)
        if done.returncode:
            raise CommandFailed(f"{run}: stage {stage} failed; the same command continues it")


def is_finished(run: Path) -> bool:
    return (run / paths.times("train")).exists()  # what stage train writes last


def train(entry: Entry, seeds: list[int]) -> None:
    """Train the entry with each seed that is not finished yet; an interrupted one continues."""
    shared = entry.folder / "shared"
    for seed in seeds:
        run = entry.folder / str(seed)
        if is_finished(run):
            print(f"{run}: kept", flush=True)
            continue
        if not (shared / paths.times("vocab")).exists():
            run_stages(entry, shared, seed, ["download", "vocab"])
        if not (run / paths.times("vocab")).exists():
            shutil.copytree(shared / "data", run / "data", dirs_exist_ok=True)
        print(f"{run}: training", flush=True)
        run_stages(entry, run, seed, ["train"])
        check_run(run)


def finished_runs(folder: Path) -> dict[int, Path]:
    """{seed: finished run} of an entry. Raises InputError with fewer than FEWEST_SEEDS."""
    runs: dict[int, Path] = {}
    for path in folder.glob("[0-9]*"):
        if path.name.isdecimal() and is_finished(path):
            runs[int(path.name)] = path
    if len(runs) < FEWEST_SEEDS:
        raise InputError(
            f"{folder}: expected finished runs of at least {FEWEST_SEEDS} seeds, got {len(runs)}; "
            "train them first"
        )
    return dict(sorted(runs.items()))

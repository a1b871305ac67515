"""Check params.yaml, the data and this machine before a run.

Reports problems in each section, between sections and in the files that params.yaml names, notes
what may surprise you, and estimates how long a run will take. `make repro` does this first. Settings
that depend on the stories or the vocabulary are checked by stage vocab, before training.
"""

import argparse
import dataclasses
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, Problems, load_params
from tinylm.cli.command import check_clone
from tinylm.params import estimate
from tinylm.params.params import params_from, read_sections
from tinylm.params.speed import keep_speed, kept_speed, measure

EXAMPLES = "  tinylm check && dvc repro\n"
LONG_S = 600  # a longer estimate comes with a suggestion
MOST_VALIDATION = 0.5  # of the time of stage train; a larger share comes with a note
FROM_HUB = "; tinylm preset NAME --hub takes data from the Hugging Face hub"


@dataclasses.dataclass
class Findings:
    """A line for each problem, and for each point that is worth a note."""

    problems: Problems = dataclasses.field(default_factory=Problems)
    notes: list[str] = dataclasses.field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def check_params(findings: Findings) -> dict[str, Any]:
    """The settings of each section of params.yaml without an error."""
    sections: dict[str, Any] = {}
    with findings.problems.collected():
        values = load_params()
        findings.notes += _interpolated(values)
        sections, _ = read_sections(values)
        params_from(values)
    return sections


def _interpolated(values: Any, key: str = "") -> Iterator[str]:
    """A note for each text that Hydra, which DVC uses for experiments, would replace."""
    if isinstance(values, str) and "${" in values:
        yield f"{key}: dvc exp run -S and tinylm sweep refuse a text with ${{...}}, got {values!r}"
    parts = dict(enumerate(values)) if isinstance(values, list) else values
    for name, value in parts.items() if isinstance(parts, dict) else ():
        yield from _interpolated(value, f"{key}.{name}" if key else str(name))


def _require_readable(key: str, name: str, hint: str = "") -> None:
    """Raise InputError unless a file or folder that params.yaml names can be read."""
    if not os.access(name, os.R_OK):
        raise InputError(
            f"{PARAMS_FILE}: {key}: expected a readable file or folder, got {name!r}{hint}"
        )


def _check_corpus(data: Any, notes: list[str]) -> None:
    """Add to the notes what is not read. Raises InputError unless stage download can read the corpus."""
    from tinylm.download.remarks import remarks
    from tinylm.download.settings import GENERATED
    from tinylm.download.source import open_source

    _require_readable("data.path", data.path, "" if data.source == "world" else FROM_HUB)
    if data.source not in GENERATED and data.train_stories is not None:
        notes.append(
            f"data.train_stories: reading stops once train and held-out together have {data.train_stories:,} stories; "
            "null reads all"
        )
    if data.source == "world":
        notes += remarks(open_source(data).description)
    if data.source == "local":
        empty = f"{PARAMS_FILE}: data.path: expected stories, but {data.path!r} is empty{FROM_HUB}"
        if os.path.isdir(data.path) and not os.listdir(data.path):
            raise InputError(empty)
        source = open_source(data)
        notes += remarks(source.description)
        if not any(source.sizes.values()):
            raise InputError(empty)
        by_hash = data.held_out == "hash"
        least = 1 + by_hash + (by_hash and not source.has_evaluation)  # one story for each split
        stories = sum(1 for _ in islice(source.rows("train"), least))
        if stories < least:
            raise InputError(
                f"{data.path}: expected at least {least} stories, one for each split, got {stories} "
                "(in a text file a blank line or <|endoftext|> separates them)"
            )


def _check_vocabulary(vocab: Any, notes: list[str]) -> None:
    """Raise InputError unless stage vocab can read the vocabulary, if the settings name one."""
    from tinylm.vocab.gpt2 import load_gpt2

    if vocab.path:
        _require_readable("vocab.path", vocab.path)
        if vocab.tokenizer == "gpt2":
            load_gpt2(vocab)


def _check_vectors(embedding: Any, notes: list[str]) -> None:
    """Raise InputError unless stage vocab can read the word vectors, if the settings name some."""
    from tinylm.vocab.embedding.source import check_vectors

    _require_readable("embedding.path", embedding.path)
    if embedding.source == "file" and embedding.hub is None:
        check_vectors(Path(embedding.path), embedding.width)


FILES = {"data": _check_corpus, "vocab": _check_vocabulary, "embedding": _check_vectors}


def check_files(sections: dict[str, Any], findings: Findings) -> None:
    """The corpus, the vocabulary and the word vectors that params.yaml names."""
    for name, check in FILES.items():
        if name not in sections:
            continue
        with findings.problems.collected():
            check(sections[name], findings.notes)
        if os.path.normpath(sections[name].path or "").startswith(".."):
            findings.notes.append(
                f"{name}.path: dvc exp run --temp or --queue needs its absolute path"
            )


def check_machine(sections: dict[str, Any], findings: Findings) -> None:
    """Cores and device that section `runtime` names."""
    from tinylm.base.processes import cores, useful_cores

    runtime = sections.get("runtime")
    if runtime is None:
        return
    if runtime.threads > cores():
        findings.notes.append(
            f"runtime.threads: {runtime.threads} is slower than {cores()}, the number of cores"
        )
    elif runtime.threads < useful_cores():
        findings.notes.append(f"runtime.threads: auto uses {useful_cores()} cores, which is faster")
    if kept_speed(sections) is not None:
        return  # it is of the CPU, which is always there; looking for a card would load torch
    from tinylm.base.machine import pick_device

    with findings.problems.collected():
        device = pick_device(runtime.device)
        if "train" in sections:
            sections["train"].resolved(device)


def find_all() -> Findings:
    """All findings of the current folder; problems in one part do not hide those of another."""
    findings = Findings()
    sections = check_params(findings)
    check_files(sections, findings)
    check_machine(sections, findings)
    return findings


def run(arguments: argparse.Namespace) -> None:
    """Print the notes. Raises InputError with a line for each problem, if there is one."""
    check_clone()
    findings = find_all()
    for note in findings.notes:
        print(f"note: {note}")
    findings.problems.refuse()
    print("checked: no problems found")
    for line in _durations():
        print(line)


def _durations() -> Iterator[str]:
    """How long a run of all stages takes here, about, which is kept for the stages to show."""
    values = load_params()
    params = params_from(values)
    corpus = estimate.corpus_of(params.data)
    sections = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    speed = kept_speed(sections)
    when = ""
    if speed is None:
        speed = measure(params)
        keep_speed(sections, speed)
    elif speed.age_s() > 60:
        when = f" (measured {speed.age_s() / 60:.0f} min ago)"
    seconds = estimate.stage_seconds(params, corpus, speed)
    estimate.keep(seconds, values)
    total = sum(seconds.values())
    train = estimate.rough_duration(seconds["train"])
    line = f"all stages: {estimate.rough_duration(total)} on this machine{when}, including {train} of training"
    yield line + ("; make quick takes less time" if total > LONG_S else "")
    validation_s = estimate.validation_seconds(params, corpus, speed.token_s)
    if validation_s > MOST_VALIDATION * seconds["train"]:
        yield (
            f"note: {estimate.rough_duration(validation_s)} of the training time is validation; "
            "reduce it with a smaller data.held_out_share or a larger train.validate_every"
        )

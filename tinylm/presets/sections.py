"""params.yaml as a whole: every section with its settings class, and the rules that hold between sections.

Each stage has the whole file checked before it starts, so that an error in a later stage's section costs no work. That
decides whether a stage runs but never what it computes, so no stage depends on this module.
"""

import dataclasses
import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params, read_section
from tinylm.bench.measure import (
    AccumSettings,
    BeamBenchSettings,
    CkptBenchSettings,
    KvBenchSettings,
    SeedSettings,
)
from tinylm.decoding.settings import DecodeSettings
from tinylm.download.stories import DataSettings
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.embedding.source import check_vectors
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.host.runtime import RuntimeSettings
from tinylm.host.stage_inputs import refuse_edits
from tinylm.model.settings import ModelSettings
from tinylm.report.settings import ReportSettings
from tinylm.train.settings import TrainSettings
from tinylm.vocab.gpt2_files import SIZE as GPT2_SIZE
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import SPECIALS

SECTIONS: dict[str, type] = {
    "data": DataSettings,
    "vocab": VocabSettings,
    "embedding": EmbeddingSettings,
    "model": ModelSettings,
    "train": TrainSettings,
    "decode": DecodeSettings,
    "evaluate": EvaluateSettings,
    "beam_bench": BeamBenchSettings,
    "kv_bench": KvBenchSettings,
    "accum_sweep": AccumSettings,
    "ckpt_bench": CkptBenchSettings,
    "seeds": SeedSettings,
    "report": ReportSettings,
    "runtime": RuntimeSettings,
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the table: what was checked, its value, and what is wrong with it or worth a note."""

    what: str
    value: str
    problem: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """ok, the note or the problem."""
        return (
            f"problem: {self.problem}"
            if self.problem
            else f"note: {self.note}"
            if self.note
            else "ok"
        )


Read = dict[str, Any]  # section -> its settings, of the sections without an error
Rule = Callable[[SimpleNamespace], Iterator[Finding]]
_RULES: list[tuple[tuple[str, ...], Rule]] = []


def _settings(count: int) -> str:
    return "1 setting" if count == 1 else f"{count} settings"


def read_sections(params: dict[str, Any]) -> tuple[Read, list[Finding]]:
    """The settings of every section that can be read, and one finding per error in the others."""
    read: Read = {}
    findings = []
    for name, settings_class in SECTIONS.items():
        try:
            read[name] = read_section(params, name, settings_class)
        except InputError as error:
            findings += [Finding(name, "", line) for line in str(error).splitlines()]
        else:
            findings.append(Finding(name, _settings(len(dataclasses.fields(settings_class)))))
    for name in params:
        if name not in SECTIONS:
            shown = str(name)[:80]
            near = difflib.get_close_matches(shown, SECTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            findings.append(
                Finding(shown, "", f"{PARAMS_FILE}: section {shown!r} is unknown{hint}")
            )
    return read, findings


def vocab_limit(read: Read) -> int | None:
    """The most ids that section `vocab` allows; None if it sets no limit."""
    vocab = read.get("vocab")
    limit = None if vocab is None else GPT2_SIZE if vocab.tokenizer == "gpt2" else vocab.max_size
    if vocab is not None and vocab.tokenizer == "words" and limit is not None:
        limit += len(SPECIALS)  # which the other tokenizers count within
    return limit


def linked_outputs() -> list[str]:
    """One line for each folder of outputs that is a link: DVC runs the stage, and then refuses what it wrote."""
    return [
        f"{name} is a link to {os.readlink(name)}; allowed: a folder, since DVC keeps no output behind a link (dvc "
        "cache dir moves what takes up the space)"
        for name in paths.OUTPUTS
        if os.path.islink(name)
    ]


def stage_params(vectors: bool = False) -> dict[str, Any]:
    """params.yaml for a stage, which then reads its own sections. `vectors`: also check a given file of vectors.

    Raises InputError with a line for each error in any section, and for each rule between sections that is broken. From
    here on the stage's inputs may not change: see `refuse_edits`.
    """
    params = load_params()
    read, findings = read_sections(params)
    problems = [
        finding.problem
        for finding in [*findings, *check_rules(read, vocab_limit(read))]
        if finding.problem
    ]
    lines = [
        line if line.startswith(PARAMS_FILE) else f"{PARAMS_FILE}: {line}" for line in problems
    ]
    embedding = read.get("embedding")
    lines += linked_outputs()
    if (
        vectors
        and embedding is not None
        and embedding.source == "file"
        and embedding.hub_id is None
    ):
        try:
            check_vectors(Path(embedding.path), embedding.width)
        except InputError as error:
            lines.append(str(error))
    if lines:
        raise InputError("\n".join(lines))
    refuse_edits(params)
    return params


def _rule(*needs: str) -> Callable[[Rule], Rule]:
    """A rule between the named sections; it is skipped if one of them cannot be read."""

    def add(rule: Rule) -> Rule:
        _RULES.append((needs, rule))
        return rule

    return add


def check_rules(read: Read, vocab_size: int | None) -> list[Finding]:
    """What the rules between sections find; `vocab_size` is None if it is not known yet."""
    known = SimpleNamespace(**read, vocab_size=vocab_size)
    return [
        finding for needs, rule in _RULES if set(needs) <= read.keys() for finding in rule(known)
    ]


@_rule("model", "embedding")
def _heads(s: SimpleNamespace) -> Iterator[Finding]:
    problems = s.model.problems_with_width(s.embedding.width)
    yield Finding("heads", f"{s.model.heads} on width {s.embedding.width}", "; ".join(problems))


@_rule("model", "embedding")
def _vectors(s: SimpleNamespace) -> Iterator[Finding]:
    note, random = "", s.embedding.source == "random"
    if random and s.model.embedding == "frozen":
        note = "model.embedding = frozen: the random vectors stay as they are drawn"
    elif random and s.model.init == "torch" and s.embedding.std != 1.0:
        note = f"embedding.std = {s.embedding.std:g}: PyTorch's own vectors, as model.init = torch has it, have 1"
    yield Finding("word vectors", f"{s.embedding.source}, {s.model.embedding}", note=note)


def _prompt_in_context(section: str) -> None:
    @_rule("model", section)
    def prompt(s: SimpleNamespace) -> Iterator[Finding]:
        tokens, most = (
            getattr(s, section).prompt_tokens,
            s.model.context - 2,
        )  # leave room for <sos> and a new token
        problem = f"{section}.prompt_tokens = {tokens}; allowed: at most {most}, two less than model.context"
        yield Finding(
            f"{section} prompt",
            f"{tokens} of {s.model.context} tokens",
            problem if tokens > most else "",
        )


for _section in ("evaluate", "beam_bench", "kv_bench"):
    _prompt_in_context(_section)


@_rule("model", "kv_bench")
def _cache_lengths(s: SimpleNamespace) -> Iterator[Finding]:
    room = s.model.context - s.kv_bench.prompt_tokens - 1
    past = [length for length in s.kv_bench.lengths if length > room]
    note = ""
    if len(past) == len(s.kv_bench.lengths):
        note = f"kv_bench.lengths: all pass model.context = {s.model.context}, so that the window slides in each"
    yield Finding(
        "kv_bench lengths", f"{len(past)} of {len(s.kv_bench.lengths)} pass the context", note=note
    )


@_rule("decode", "beam_bench", "vocab")
def _vocabulary(s: SimpleNamespace) -> Iterator[Finding]:
    if s.vocab_size is None:
        yield Finding("vocabulary", "not known before all stories are read")
        return
    widest = max(s.beam_bench.widths)
    most = f"allowed: at most the vocabulary's {s.vocab_size}"
    beams = f"beam_bench.widths = {widest}; {most}" if widest > s.vocab_size else ""
    top_k = (
        f"decode.top_k = {s.decode.top_k}; {most}, or 0" if s.decode.top_k > s.vocab_size else ""
    )
    yield Finding("beam widths", f"{widest} of {s.vocab_size} ids", beams)
    yield Finding("top_k", f"{s.decode.top_k} of {s.vocab_size} ids", top_k)


@_rule("model", "train")
def _updates(s: SimpleNamespace) -> Iterator[Finding]:
    update = (
        s.train.batch_size * s.train.accumulation * s.model.context
    )  # rows of layout `stories` may be shorter
    if s.train.tokens is None:
        yield Finding("training", f"{s.train.epochs:g} epochs, {update:,} tokens an update at most")
        return
    updates = s.train.tokens / update
    problem = note = ""
    if s.train.layout != "stories" and updates < 1:
        problem = (
            f"train.tokens = {s.train.tokens}; allowed: at least {update}, one update of "
            "batch_size x accumulation x model.context"
        )
    elif s.train.layout != "stories" and s.train.patience and updates < s.train.validate_every:
        problem = (
            f"train.validate_every = {s.train.validate_every}; allowed with a patience: at most the {updates:.0f} "
            "updates of the budget"
        )
    elif 0 < s.train.warmup * updates < 1 and s.train.layout != "stories":
        note = f"train.warmup = {s.train.warmup} is less than one of {updates:.0f} updates"
    least = "" if s.train.layout != "stories" else "at least "
    yield Finding(
        "training", f"{least}{updates:,.0f} updates, {update:,} tokens each at most", problem, note
    )


@_rule("model", "train", "accum_sweep")
def _accumulation(s: SimpleNamespace) -> Iterator[Finding]:
    largest = max(s.accum_sweep.settings)
    update = largest * s.accum_sweep.batch_size * s.model.context
    problem = ""
    if s.train.layout != "stories" and s.accum_sweep.tokens < update:
        problem = (
            f"accum_sweep.tokens = {s.accum_sweep.tokens}; allowed: at least {update}, one update of accumulation "
            f"{largest} x batch_size x model.context"
        )
    yield Finding(
        "accum_sweep tokens",
        f"{s.accum_sweep.tokens:,}, {update:,} at most in its largest update",
        problem,
    )


@_rule("data", "evaluate", "beam_bench", "kv_bench")
def _evaluation_stories(s: SimpleNamespace) -> Iterator[Finding]:
    most = s.data.evaluation_stories
    wanted = {
        "evaluate.stories": s.evaluate.stories,
        "evaluate.attention_sentences": s.evaluate.attention_sentences,
        "evaluate.tendency_sentences": s.evaluate.tendency_sentences,
        "beam_bench.prompts": s.beam_bench.prompts,
        "kv_bench.batch": s.kv_bench.batch,
    }
    if most is None:
        yield Finding("evaluation stories", "all")
        return
    too_many = [f"{name} = {count}" for name, count in wanted.items() if count > most]
    problem = (
        f"{', '.join(too_many)}; allowed: at most data.evaluation_stories = {most}"
        if too_many
        else ""
    )
    yield Finding("evaluation stories", f"at most {most:,}", problem)


@_rule("train", "seeds")
def _seeds(s: SimpleNamespace) -> Iterator[Finding]:
    problem = ""
    if s.train.seed in s.seeds.more:
        problem = f"seeds.more names {s.train.seed}; allowed: seeds other than train.seed"
    yield Finding("seeds to train", ", ".join(map(str, (s.train.seed, *s.seeds.more))), problem)

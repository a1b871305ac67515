"""The sections of a report and the files that each is made from; page.py and paper.py lay out the same sections."""

import dataclasses
from collections.abc import Callable
from functools import partial

from tinylm.report import (
    attention_sections,
    chance_sections,
    cost_sections,
    enhancements,
    head_training,
    method_sections,
    pair_sections,
    preprocessing,
    quality_sections,
    run_sections,
    sense_sections,
)
from tinylm.report.blocks import Blocks, joined, paragraph
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, Run


@dataclasses.dataclass(frozen=True)
class Section:
    """One section; `sources` are the files it is made from (names of sources.FILES)."""

    anchor: str
    short: str  # in the page's contents bar
    title: str
    sources: tuple[str, ...]
    content: Callable[[Run], Blocks]


@dataclasses.dataclass(frozen=True)
class Part:
    """A section as it was written for one run."""

    anchor: str
    short: str
    title: str
    blocks: Blocks


def write_parts(run: Run, settings: ReportSettings) -> list[Part]:
    """Every section that has content, after one line for each file that it had to do without."""
    parts = []
    for section in sections(settings):
        missing = [run.problems[name] for name in section.sources if name in run.problems]
        notes = joined(paragraph(f"Not shown: {line}.", kind="missing") for line in missing)
        parts.append(
            Part(section.anchor, section.short, section.title, notes + section.content(run))
        )
    return [part for part in parts if part.blocks]


def sections(settings: ReportSettings) -> tuple[Section, ...]:
    """The page from top to bottom."""
    method, quality, cost, whole = method_sections, quality_sections, cost_sections, run_sections
    samples = partial(quality.samples, shown=settings.samples)
    times = tuple(f"{stage}_time" for stage in STAGES)
    curves = ("train", "train_time", "loss", "perplexity", "learning_rate", "grad_norm")
    beams = ("beam_bench", "beam_bench_time", "beams")
    heads = (
        "attention",
        "moments",
        "roles",
        "ablation",
        "heads",
        "heads_training",
    )
    costs = (
        "kv_bench_time",
        "beam_bench",
        "beam_bench_time",
        "accum_sweep",
        "accum_sweep_time",
        "ckpt_bench_time",
    )
    sweep = (
        "accum_sweep",
        "accum_sweep_time",
        "accum_tokens",
        "accum_updates",
        "accum_micro_steps",
    )
    return (
        Section("summary", "Summary", "Summary", ("train", "evaluate"), whole.summary),
        Section("data", "Data", "Data and vocabulary", ("download", "vocab"), method.data),
        Section(
            "preprocessing",
            "Preprocessing",
            "Preprocessing",
            ("download", "vocab"),
            preprocessing.preprocessing,
        ),
        Section("model", "Model", "The model", ("train",), method.model),
        Section("training", "Training", "How it was trained", (), method.training),
        Section("curves", "Curves", "How training went", curves, whole.curves),
        Section("learns", "Stories", "Samples during training", ("stories",), whole.stories),
        Section(
            "evaluation",
            "Evaluation",
            "Evaluation against baselines",
            ("evaluate",),
            quality.evaluation,
        ),
        Section(
            "seeds",
            "Seeds",
            "Variation across seeds",
            ("seeds", "seed_curves"),
            chance_sections.seeds,
        ),
        Section(
            "samples",
            "Samples",
            "Continuations",
            ("samples", "evaluate", "greedy", "own_texts"),
            samples,
        ),
        Section(
            "sense",
            "Sense",
            "Do the stories make sense?",
            ("evaluate", "sense", "beam_bench"),
            sense_sections.sense,
        ),
        Section(
            "pairs",
            "Pairs",
            "Which of two sentences is likelier?",
            ("evaluate", "pairs"),
            pair_sections.pairs,
        ),
        Section(
            "memorised",
            "Memorised",
            "Memorisation",
            ("evaluate", "memorised"),
            chance_sections.memorised,
        ),
        Section("beams", "Beams", "Beam search compared with sampling", beams, quality.beams),
        Section("attention", "Attention", "Attention heads", heads, _attention),
        Section("cache", "Cache", "Key-value cache", ("kv_bench", "kv_bench_time"), cost.cache),
        Section("accumulation", "Accumulation", "Gradient accumulation", sweep, cost.accumulation),
        Section(
            "checkpointing",
            "Checkpointing",
            "Gradient checkpointing",
            ("ckpt_bench", "ckpt_bench_time"),
            cost.recomputation,
        ),
        Section(
            "enhancements",
            "Enhancements",
            "What each enhancement does",
            costs,
            enhancements.enhancements,
        ),
        Section("budget", "Time", "Where the time went", times, whole.budget),
        Section(
            "conclusions",
            "Findings",
            "What this run shows, and what it does not show",
            (),
            whole.conclusions,
        ),
        Section("settings", "Settings", "Settings", (), whole.settings),
        Section("literature", "Literature", "Literature", (), method.literature),
    )


def _attention(run: Run) -> Blocks:
    part = attention_sections
    what_they_do = (
        part.head_roles(run) + part.own_sentences(run) + part.attention(run) + part.moments(run)
    )
    what_they_do += part.head_tendencies(run)
    return what_they_do + head_training.over_training(run) + head_training.layers(run)

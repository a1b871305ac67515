"""report/index.html: one file that opens offline, without scripts, from what `Run` holds."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tinylm.reporting import cost_sections, quality_sections, run_sections
from tinylm.reporting.markup import escape, paragraph
from tinylm.reporting.settings import ReportSettings
from tinylm.reporting.sources import STAGES, Run

STYLE_SHEET = Path(__file__).with_name("page.css")
Content = Callable[[Run, Mapping[str, str]], str]


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of the page; `sources` are the files it is made of (names of sources.FILES)."""

    anchor: str
    short: str  # in the contents bar
    title: str
    sources: tuple[str, ...]
    content: Content


def sections(settings: ReportSettings) -> tuple[Section, ...]:
    """The page from top to bottom."""
    run, quality, cost = run_sections, quality_sections, cost_sections
    samples = partial(quality.samples, shown=settings.samples)
    return (
        Section("summary", "Summary", "Summary", ("train", "evaluate"), run.summary),
        Section("data", "Data", "What was trained on what", ("download", "vocab"), run.data),
        Section("model", "Model", "The model", ("train",), run.model),
        Section(
            "curves",
            "Curves",
            "How training went",
            ("train", "train_time", "loss", "perplexity", "learning_rate", "grad_norm"),
            run.curves,
        ),
        Section("learns", "Stories", "It learns: stories during training", ("stories",), run.stories),
        Section("evaluation", "Evaluation", "Evaluation against baselines", ("evaluate",), quality.evaluation),
        Section("samples", "Samples", "Continuations", ("samples", "evaluate"), samples),
        Section(
            "beams", "Beams", "Beam search beside sampling", ("beam_bench", "beam_bench_time", "beams"), quality.beams
        ),
        Section("attention", "Attention", "What the heads look at", ("attention", "heads"), _attention),
        Section("cache", "Cache", "Key-value cache", ("kv_bench", "kv_bench_time"), cost.cache),
        Section(
            "accumulation",
            "Accumulation",
            "Gradient accumulation",
            ("accum_sweep", "accum_sweep_time", "accum_tokens", "accum_updates", "accum_micro_steps"),
            cost.accumulation,
        ),
        Section(
            "checkpointing",
            "Checkpointing",
            "Gradient checkpointing",
            ("ckpt_bench", "ckpt_bench_time"),
            cost.recomputation,
        ),
        Section("budget", "Time", "Where the time went", tuple(f"{stage}_time" for stage in STAGES), cost.budget),
        Section(
            "conclusions",
            "Findings",
            "What the numbers of this run say, and what they do not say",
            (),
            cost.conclusions,
        ),
        Section("settings", "Settings", "Settings", (), cost.settings),
    )


def _attention(run: Run, svgs: Mapping[str, str]) -> str:
    return quality_sections.attention(run, svgs) + quality_sections.head_tendencies(run, svgs)


def _draw(section: Section, run: Run, svgs: Mapping[str, str]) -> str:
    missing = [run.problems[name] for name in section.sources if name in run.problems]
    notes = "".join(paragraph(f"Not shown: {line}.", kind="missing") for line in missing)
    return (
        f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-title">'
        f'<h2 id="{section.anchor}-title">{escape(section.title)}</h2>{notes}{section.content(run, svgs)}</section>\n'
    )


def build_page(run: Run, settings: ReportSettings, svgs: Mapping[str, str]) -> str:
    """The whole page as HTML; `svgs` holds the inline figures by name (pictures.page_svgs)."""
    parts = sections(settings)
    bar = "".join(f'<li><a href="#{part.anchor}">{escape(part.short)}</a></li>' for part in parts)
    body = "".join(_draw(part, run, svgs) for part in parts)
    title = escape(settings.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>\n{STYLE_SHEET.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f'<header><h1>{title}</h1></header>\n<nav aria-label="Contents"><ul>{bar}</ul></nav>\n'
        f"<main>\n{body}</main>\n"
        "<footer><p>Drawn from the files in metrics, plots and data; this page computes nothing itself.</p></footer>\n"
        "</body>\n</html>\n"
    )

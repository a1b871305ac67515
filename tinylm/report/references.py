"""Reference tables: published figures beside ours, row by row with what differs.

references.yaml names the figures; those that have to be computed, `computed.X`, are in `_computed`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from tinylm.base.config import load_params
from tinylm.report.figures import (
    GAP,
    Figures,
    Mean,
    at,
    cache_runs,
    checkpoint_runs,
    count,
    first_seed,
    is_recorded,
    lowest,
    pick,
    ratio,
    spread,
    typeset,
    values,
)
from tinylm.report.library import SYSTEMS, Library, library, of_run
from tinylm.report.sources import Run
from tinylm.report.wording import ABSENT

SPECS = Path(__file__).with_name("references.yaml")
COLUMNS = ("figure", "published", "ours", "what differs")

Cells = tuple[str, ...]  # in the order of COLUMNS
Names = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of one table of a system; headlines: the rows that docs/reference/results.md shows."""

    title: str
    rows: list[Cells]
    headlines: list[Cells]


def _lengths(ours: Figures) -> list[int]:
    """The numbers of new tokens that stage kv_bench decoded with a cache."""
    return [row["new_tokens"] for row in first_seed(ours.kv_bench_time.settings) if row["cache"]]


def _cache(ours: Figures) -> dict[str, Any]:
    """For each length: tokens/s without and with the KV cache, and both figures relative to those without."""
    lengths = {}
    for new_tokens in _lengths(ours):
        without, cached = cache_runs(ours, new_tokens)
        lengths[str(new_tokens)] = {
            "without": without.tokens_per_s,
            "cached": cached.tokens_per_s,
            "speed_up": ratio(cached.tokens_per_s, without.tokens_per_s),
            "memory": ratio(cached.peak_mib, without.peak_mib),
        }
    return lengths


def _accumulation(theirs: Figures, ours: Figures) -> dict[str, Any]:
    """For each number of mini-batches: seconds for as many tokens as theirs, and figures relative to one mini-batch."""
    said = theirs.accumulation
    tokens, first, settings = (
        said.micro_steps * said.batch_size * theirs.model.context,
        said.settings[0],
        {},
    )
    one = ours.accum_sweep_time.settings[str(first.steps)]
    for row in said.settings:
        own = ours.accum_sweep_time.settings[str(row.steps)]
        settings[str(row.steps)] = {
            "seconds": ratio(tokens, own.tokens_per_s),
            "minutes": own.epoch_s / 60,
            "time": ratio(own.epoch_s, one.epoch_s),
            "time_by_rate": ratio(one.tokens_per_s, own.tokens_per_s),
            "memory": ratio(own.peak_mib, one.peak_mib),
            "their_time": row.seconds_s / first.seconds_s
            if is_recorded(row.seconds_s)
            else row.epoch_min / first.epoch_min,
            "their_memory": row.memory_gb / first.memory_gb,
        }
    return settings


def _computed(theirs: Figures, ours: Figures) -> Figures:
    """Figures that neither side states, for all systems."""
    train, trained, tokens, context = (
        theirs.train,
        ours.train,
        ours.vocab.tokens,
        theirs.model.context,
    )
    interval = ours.evaluate.perplexity_interval
    plain, recomputing = checkpoint_runs(ours, theirs.model.layers)
    curves = ours.curves
    losses = {
        row.iteration: {part: at(curves[part], row.iteration) for part in ("train", "held_out")}
        for row in theirs.losses
    }
    return Figures(
        {
            "their_updates": train.steps / train.accumulation,
            "their_rate": train.iterations * train.batch_size * train.context / train.seconds_s,
            "their_cache_memory": theirs.cache.with_gb / theirs.cache.without_gb,
            "rows_an_update": ours.params.train.batch_size * ours.params.train.accumulation,
            "parameters_millions": trained.parameters / 1000000,
            "words_covered": 1 - ours.vocab.unknown_share.evaluation,
            "perplexity_low": min(values(interval[0]), default=Figures()),
            "perplexity_high": max(values(interval[1]), default=Figures()),
            "lengths": _lengths(ours),
            "cache": _cache(ours),
            "accumulation": _accumulation(theirs, ours),
            "memory_saved": 1 - ratio(recomputing.peak_mib, plain.peak_mib),
            "time_added": ratio(recomputing.step_s, plain.step_s) - 1,
            "losses": {str(step): row for step, row in losses.items()},
            "epochs": {
                str(row.epoch): pick(trained.by_epoch, epoch=row.epoch) for row in theirs.epochs
            },
            "epochs_trained": count(trained.by_epoch),
            "best_perplexity": lowest(trained.by_epoch, "held_out_perplexity"),
            "train_windows": tokens.train - context,
            "held_out_windows": tokens.held_out - context,
        }
    )


def shown(value: Any, form: str) -> str:
    """A figure with its standard deviation over seeds if they differ, a dash if it is not recorded."""
    if not is_recorded(value):
        return ABSENT
    text = format(round(value) if form.endswith("d") else value, form)
    if isinstance(value, Mean) and len(set(value.values)) > 1:
        text += f" ± {format(spread(value), form.lstrip('+').replace('d', '.1f'))}"
    return typeset(text)


def _look_up(path: str, names: Names) -> Any:
    """The figure that a path such as `ours.beam_bench.methods[{item.method}].bleu4` names."""
    return Formatter().get_field(path.format_map(names), (), names)[0] if path else Figures()


def _rows(spec: dict[str, Any], names: Names) -> Iterator[tuple[Cells, bool]]:
    """(cells, whether a headline) of the rows in which either side has a figure."""
    for row in spec["rows"]:
        each = row.get("each", [None])
        for item in _look_up(each, names) if isinstance(each, str) else each:
            inner = {**names, "item": item}
            sides = [
                shown(_look_up(row.get(side, ""), inner), row["form"])
                for side in ("theirs", "ours")
            ]
            differs = typeset(row.get("differs", spec["differs"]).format_map(inner))
            if sides != [ABSENT, ABSENT]:
                cells = (
                    row["figure"].format_map(inner),
                    *sides,
                    ABSENT if GAP in differs else differs,
                )
                yield cells, row.get("headline", False)


def tables(system: str, known: Library, run: Run | None = None) -> list[Table]:
    """A system beside our recorded run of its preset, or beside a folder's run."""
    theirs, recorded = known.sides(system)
    ours = recorded if run is None else of_run(run)
    names = {
        "theirs": theirs,
        "ours": ours,
        "studies": known.studies,
        "computed": _computed(theirs, ours),
    }
    rows_by_title = [
        (spec["title"], list(_rows(spec, names))) for spec in load_params(SPECS)[system]
    ]
    return [
        Table(title, [row for row, _ in rows], [row for row, head in rows if head])
        for title, rows in rows_by_title
    ]


def headlines(known: Library) -> Iterable[Cells]:
    """(kind of source, *cells) of every headline of the five systems."""
    for system in SYSTEMS:
        for table in tables(system, known):
            yield from ((known.published[system].kind, *row) for row in table.headlines)


def results_table(folder: str | Path = ".") -> str:
    """The table of docs/reference/results.md as Markdown, from published.yaml, docs/runs and docs/studies."""
    heads = ("source", *COLUMNS)
    lines = [heads, ("---",) * len(heads), *headlines(library(folder))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

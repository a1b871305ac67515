"""params.yaml as a whole: the settings of every section, and the rules between sections.

Every stage checks the whole file before it starts, so an error in a later stage's section shows up
before any work is lost. The check decides whether a stage runs, never what it computes, so no stage
in dvc.yaml depends on this package.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, read_section, unknown
from tinylm.base.runtime import RuntimeSettings
from tinylm.bench.settings import (
    PROMPT_TOKENS,
    AccumSettings,
    BeamBenchSettings,
    CkptBenchSettings,
    KvBenchSettings,
    SeedSettings,
)
from tinylm.decoding.settings import CacheSettings, DecodeSettings
from tinylm.download.settings import DataSettings
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.model.settings import ModelSettings
from tinylm.report.settings import ReportSettings
from tinylm.train.settings import TrainSettings
from tinylm.vocab.embedding.settings import EmbeddingSettings
from tinylm.vocab.settings import VocabSettings


@dataclasses.dataclass(frozen=True)
class Params:
    """All settings in params.yaml: one field per section, in the order of the file."""

    data: DataSettings
    vocab: VocabSettings
    embedding: EmbeddingSettings
    model: ModelSettings
    train: TrainSettings
    decode: DecodeSettings
    cache: CacheSettings
    evaluate: EvaluateSettings
    beam_bench: BeamBenchSettings
    kv_bench: KvBenchSettings
    accum_sweep: AccumSettings
    ckpt_bench: CkptBenchSettings
    seeds: SeedSettings
    report: ReportSettings
    runtime: RuntimeSettings


SECTIONS: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(Params)}


def params_from(values: Mapping[str, Any]) -> Params:
    """Convert a parsed params.yaml to settings.

    Raises InputError with one line for each error in any section. Rules between sections are
    checked only if every section is valid.
    """
    sections, errors = read_sections(values)
    if errors:
        raise InputError("\n".join(errors))
    params = Params(**sections)
    problems = [f"{PARAMS_FILE}: {problem}" for rule in RULES for problem in rule(params)]
    if problems:
        raise InputError("\n".join(problems))
    return params


def read_sections(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return (the settings of each valid section, one line for each error)."""
    sections = {}
    errors = []
    for name, settings_class in SECTIONS.items():
        try:
            sections[name] = read_section(values, name, settings_class)
        except InputError as error:
            errors += str(error).splitlines()
    for name in values:
        if name not in SECTIONS:
            errors.append(f"{PARAMS_FILE}: section {str(name)[:80]!r} {unknown(name, SECTIONS)}")
    return sections, errors


def _heads_fit_the_width(params: Params) -> Iterator[str]:
    yield from params.model.problems_with_width(params.embedding.width)


def _prompts_fit_the_context(params: Params) -> Iterator[str]:
    most = params.model.context - 2  # leave room for <sos> and one new token
    if most < PROMPT_TOKENS:
        least = PROMPT_TOKENS + 2
        yield f"model.context: expected at least {least}, got {params.model.context}"
    elif params.evaluate.prompt_tokens > most:
        yield (
            f"evaluate.prompt_tokens: expected at most {most}, two less than model.context, "
            f"got {params.evaluate.prompt_tokens}"
        )


def _budget_allows_an_update(params: Params) -> Iterator[str]:
    train = params.train
    if train.tokens is None or train.layout == "stories":  # rows of layout `stories` may be shorter
        return
    tokens_per_update = train.update_tokens(params.model.context)
    updates = train.tokens / tokens_per_update
    if updates < 1:
        yield (
            f"train.tokens: expected at least {tokens_per_update}, one update of batch_size x "
            f"accumulation x model.context, got {train.tokens}"
        )
    elif train.patience and updates < train.validate_every:
        yield (
            f"train.validate_every: expected at most {updates:.0f}, the number of updates in the "
            f"budget, because train.patience is set, got {train.validate_every}"
        )


def _seeds_differ(params: Params) -> Iterator[str]:
    if params.train.seed in params.seeds.more:
        yield f"seeds.more: expected seeds other than train.seed, got {params.train.seed}"


RULES: tuple[Callable[[Params], Iterator[str]], ...] = (
    _heads_fit_the_width,
    _prompts_fit_the_context,
    _budget_allows_an_update,
    _seeds_differ,
)

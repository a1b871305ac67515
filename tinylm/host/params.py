"""params.yaml as a whole: the settings class of every section, and the rules between sections.

Each stage has the whole file checked before it starts, so that an error in a later stage's section
costs no work. The check decides whether a stage runs, never what it computes. Settings classes are
therefore named as text and imported when needed, and no stage depends on this module.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params, read_section, unknown

SECTIONS = {  # section -> where its settings class is
    "data": "tinylm.download.stories:DataSettings",
    "vocab": "tinylm.vocab.settings:VocabSettings",
    "embedding": "tinylm.embedding.settings:EmbeddingSettings",
    "model": "tinylm.model.settings:ModelSettings",
    "train": "tinylm.train.settings:TrainSettings",
    "decode": "tinylm.decoding.settings:DecodeSettings",
    "evaluate": "tinylm.evaluate.settings:EvaluateSettings",
    "beam_bench": "tinylm.bench.measure:BeamBenchSettings",
    "kv_bench": "tinylm.bench.measure:KvBenchSettings",
    "accum_sweep": "tinylm.bench.measure:AccumSettings",
    "ckpt_bench": "tinylm.bench.measure:CkptBenchSettings",
    "seeds": "tinylm.bench.measure:SeedSettings",
    "report": "tinylm.report.settings:ReportSettings",
    "runtime": "tinylm.host.runtime:RuntimeSettings",
}

Sections = dict[str, Any]  # section -> its settings; sections with an error are left out
Rule = Callable[..., Iterator[str]]  # its arguments are named after the sections that it needs


def settings_class(section: str) -> type | None:
    """The settings class of a section; None if its package was removed from this copy."""
    module, _, name = SECTIONS[section].partition(":")
    try:
        settings: type = getattr(importlib.import_module(module), name)
        return settings
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return None
        raise


def read_sections(params: dict[str, Any]) -> tuple[Sections, list[str]]:
    """The settings of every section without an error, and one line for each error."""
    sections: Sections = {}
    errors = []
    for name in SECTIONS:
        section_class = settings_class(name)
        if section_class is None:
            continue
        try:
            sections[name] = read_section(params, name, section_class)
        except InputError as error:
            errors += str(error).splitlines()
    for name in params:
        if name not in SECTIONS:
            errors.append(f"{PARAMS_FILE}: section {str(name)[:80]!r} {unknown(name, SECTIONS)}")
    return sections, errors


def rule_errors(sections: Sections) -> list[str]:
    """One line for each broken rule between sections that could be read."""
    errors = []
    for rule in RULES:
        needed = inspect.signature(rule).parameters
        if sections.keys() >= needed.keys():
            problems = rule(**{name: sections[name] for name in needed})
            errors += [f"{PARAMS_FILE}: {problem}" for problem in problems]
    return errors


def stage_params() -> dict[str, Any]:
    """params.yaml for a stage, which then reads its own sections.

    Raises InputError with one line for each error in any section and for each broken rule between
    sections.
    """
    params = load_params()
    sections, errors = read_sections(params)
    errors += rule_errors(sections)
    if errors:
        raise InputError("\n".join(errors))
    return params


def _heads_fit_the_width(model: Any, embedding: Any) -> Iterator[str]:
    yield from model.problems_with_width(embedding.width)


def _prompts_fit_the_context(
    model: Any, evaluate: Any, beam_bench: Any, kv_bench: Any
) -> Iterator[str]:
    most = model.context - 2  # leave room for <sos> and a new token
    allowed = f"at most {most}, two less than model.context"
    sections = {"evaluate": evaluate, "beam_bench": beam_bench, "kv_bench": kv_bench}
    for name, section in sections.items():
        prompt = section.prompt_tokens
        if prompt > most:
            yield f"{name}.prompt_tokens = {prompt}; allowed: {allowed}"


def _choices_fit_the_vocabulary(vocab: Any, decode: Any, beam_bench: Any) -> Iterator[str]:
    size = vocab.size_limit()
    if size is None:
        return
    widest = max(beam_bench.widths)
    if widest > size:
        yield f"beam_bench.widths = {widest}; allowed: at most the vocabulary's {size}"
    if decode.top_k > size:
        yield f"decode.top_k = {decode.top_k}; allowed: at most the vocabulary's {size}, or 0"


def _budget_allows_an_update(model: Any, train: Any) -> Iterator[str]:
    if train.tokens is None or train.layout == "stories":  # rows of layout `stories` may be shorter
        return
    update = train.batch_size * train.accumulation * model.context
    updates = train.tokens / update
    if updates < 1:
        allowed = f"at least {update}, one update of batch_size x accumulation x model.context"
        yield f"train.tokens = {train.tokens}; allowed: {allowed}"
    elif train.patience and updates < train.validate_every:
        allowed = f"with a patience: at most the {updates:.0f} updates of the budget"
        yield f"train.validate_every = {train.validate_every}; allowed {allowed}"


def _accumulation_allows_an_update(model: Any, train: Any, accum_sweep: Any) -> Iterator[str]:
    largest = max(accum_sweep.settings)
    context = min(accum_sweep.context or model.context, model.context)
    update = largest * accum_sweep.batch_size * context
    if train.layout != "stories" and accum_sweep.tokens < update:
        product = f"accumulation {largest} x batch_size x context"
        tokens = accum_sweep.tokens
        yield f"accum_sweep.tokens = {tokens}; allowed: at least {update}, one update of {product}"


def _evaluation_stories_suffice(
    data: Any, evaluate: Any, beam_bench: Any, kv_bench: Any
) -> Iterator[str]:
    most = data.evaluation_stories
    wanted = {
        "evaluate.stories": evaluate.stories,
        "evaluate.attention_sentences": evaluate.attention_sentences,
        "evaluate.tendency_sentences": evaluate.tendency_sentences,
        "beam_bench.prompts": beam_bench.prompts,
        "kv_bench.batch": kv_bench.batch,
    }
    for name, count in wanted.items():
        if most is not None and count > most:
            yield f"{name} = {count}; allowed: at most data.evaluation_stories = {most}"


def _device_allows(decode: Any, runtime: Any) -> Iterator[str]:
    if runtime.device == "cuda" and decode.step == "compiled":
        yield "decode.step = compiled; allowed with runtime.device = cuda: plain | auto"


def _seeds_differ(train: Any, seeds: Any) -> Iterator[str]:
    if train.seed in seeds.more:
        yield f"seeds.more names {train.seed}; allowed: seeds other than train.seed"


RULES: tuple[Rule, ...] = (
    _heads_fit_the_width,
    _prompts_fit_the_context,
    _choices_fit_the_vocabulary,
    _budget_allows_an_update,
    _accumulation_allows_an_update,
    _evaluation_stories_suffice,
    _device_allows,
    _seeds_differ,
)

"""params.yaml as a whole: the settings class of every section, and the rules between sections.

Each stage has the whole file checked before it starts, so that an error in a later stage's section
costs no work. The check decides whether a stage runs, never what it computes. Settings classes are
therefore named as text and imported when needed, and no stage depends on this module.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params, read_section, unknown
from tinylm.host.stage_inputs import refuse_edits

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
Rule = Callable[[SimpleNamespace], Iterator[str]]


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
    settings = SimpleNamespace(**sections)
    errors = []
    for needs, rule in RULES:
        if sections.keys() >= set(needs):
            errors += [f"{PARAMS_FILE}: {error}" for error in rule(settings)]
    return errors


def linked_outputs() -> list[str]:
    """One line for each folder of outputs that is a link, since DVC refuses to store it."""
    links = filter(os.path.islink, paths.OUTPUTS)
    return [f"{name} is a link; allowed: a folder, since DVC stores no output" for name in links]


def vector_file_errors(sections: Sections) -> list[str]:
    """What is wrong with the file of word vectors that section `embedding` names."""
    embedding = sections.get("embedding")
    if embedding is None or embedding.source != "file" or embedding.hub_id is not None:
        return []
    source = importlib.import_module("tinylm.embedding.source")
    try:
        source.check_vectors(Path(embedding.path), embedding.width)
    except InputError as error:
        return str(error).splitlines()
    return []


def stage_params(vectors: bool = False) -> dict[str, Any]:
    """params.yaml for a stage, which then reads its own sections.

    `vectors`: also check the file of word vectors. Raises InputError with one line for each error
    in any section and for each broken rule between sections. From here on the stage's inputs may
    not change: see `refuse_edits`.
    """
    params = load_params()
    sections, errors = read_sections(params)
    errors += rule_errors(sections)
    errors += linked_outputs()
    if vectors:
        errors += vector_file_errors(sections)
    if errors:
        raise InputError("\n".join(errors))
    refuse_edits(params)
    return params


def _heads_fit_the_width(s: SimpleNamespace) -> Iterator[str]:
    yield from s.model.problems_with_width(s.embedding.width)


def _prompts_fit_the_context(s: SimpleNamespace) -> Iterator[str]:
    most = s.model.context - 2  # leave room for <sos> and a new token
    allowed = f"at most {most}, two less than model.context"
    for section in ("evaluate", "beam_bench", "kv_bench"):
        prompt = getattr(s, section).prompt_tokens
        if prompt > most:
            yield f"{section}.prompt_tokens = {prompt}; allowed: {allowed}"


def _choices_fit_the_vocabulary(s: SimpleNamespace) -> Iterator[str]:
    size = s.vocab.size_limit()
    if size is None:
        return
    widest = max(s.beam_bench.widths)
    if widest > size:
        yield f"beam_bench.widths = {widest}; allowed: at most the vocabulary's {size}"
    if s.decode.top_k > size:
        yield f"decode.top_k = {s.decode.top_k}; allowed: at most the vocabulary's {size}, or 0"


def _budget_allows_an_update(s: SimpleNamespace) -> Iterator[str]:
    train = s.train
    if train.tokens is None or train.layout == "stories":  # rows of layout `stories` may be shorter
        return
    update = train.batch_size * train.accumulation * s.model.context
    updates = train.tokens / update
    if updates < 1:
        allowed = f"at least {update}, one update of batch_size x accumulation x model.context"
        yield f"train.tokens = {train.tokens}; allowed: {allowed}"
    elif train.patience and updates < train.validate_every:
        allowed = f"with a patience: at most the {updates:.0f} updates of the budget"
        yield f"train.validate_every = {train.validate_every}; allowed {allowed}"


def _accumulation_allows_an_update(s: SimpleNamespace) -> Iterator[str]:
    largest = max(s.accum_sweep.settings)
    update = largest * s.accum_sweep.batch_size * s.model.context
    if s.train.layout != "stories" and s.accum_sweep.tokens < update:
        product = f"accumulation {largest} x batch_size x model.context"
        tokens = s.accum_sweep.tokens
        yield f"accum_sweep.tokens = {tokens}; allowed: at least {update}, one update of {product}"


def _evaluation_stories_suffice(s: SimpleNamespace) -> Iterator[str]:
    most = s.data.evaluation_stories
    wanted = {
        "evaluate.stories": s.evaluate.stories,
        "evaluate.attention_sentences": s.evaluate.attention_sentences,
        "evaluate.tendency_sentences": s.evaluate.tendency_sentences,
        "beam_bench.prompts": s.beam_bench.prompts,
        "kv_bench.batch": s.kv_bench.batch,
    }
    for name, count in wanted.items():
        if most is not None and count > most:
            yield f"{name} = {count}; allowed: at most data.evaluation_stories = {most}"


def _device_allows(s: SimpleNamespace) -> Iterator[str]:
    for key in ("compile", "cuda_graphs"):
        if s.runtime.device == "cpu" and getattr(s.train, key) == "true":
            yield f"train.{key} = true; allowed with runtime.device = cpu: auto | false"
    if s.runtime.device == "cuda" and s.decode.step == "compiled":
        yield "decode.step = compiled; allowed with runtime.device = cuda: plain | auto"


def _seeds_differ(s: SimpleNamespace) -> Iterator[str]:
    if s.train.seed in s.seeds.more:
        yield f"seeds.more names {s.train.seed}; allowed: seeds other than train.seed"


RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("model", "embedding"), _heads_fit_the_width),
    (("model", "evaluate", "beam_bench", "kv_bench"), _prompts_fit_the_context),
    (("vocab", "decode", "beam_bench"), _choices_fit_the_vocabulary),
    (("model", "train"), _budget_allows_an_update),
    (("model", "train", "accum_sweep"), _accumulation_allows_an_update),
    (("data", "evaluate", "beam_bench", "kv_bench"), _evaluation_stories_suffice),
    (("train", "decode", "runtime"), _device_allows),
    (("train", "seeds"), _seeds_differ),
)

"""Greedy decoding with and without the cache: the same ids at different cost."""

import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.base.seeding import seed_everything
from tinylm.bench import measure
from tinylm.bench.measure import KvBenchSettings
from tinylm.bench.operations import STEPS, shares
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import Sampling
from tinylm.decoding.session import Session, decoding_mode
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.prompts import choose_prompts
from tinylm.vocab.token_store import TokenStore

SEED = 1
GREEDY = DecodeSettings(temperature=0.0)
TIE = 1e-4  # nats; float32 logits of the two paths differ by about 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What a process needs for one setting. The model is the one in the working directory."""

    slide: str
    prompts: list[list[int]]
    new_tokens: int
    cache: bool
    eos_id: int | None
    runtime: RuntimeSettings
    only_times: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The setting's name and conditions, for its row of results."""
        return {
            "setting": f"{self.new_tokens} new tokens, {'cache' if self.cache else 'no cache'}",
            "new_tokens": self.new_tokens,
            "cache": self.cache,
        }


def _model(task: Task) -> TinyLM:
    """The trained model. Its own code decodes, so that the two ways differ only in the cache."""
    seed_everything(SEED, task.runtime.threads)
    return load_model(paths.MODELS, pick_device(task.runtime.device))[0]


def _timed(
    task: Task, model: TinyLM, prompts: list[list[int]], new_tokens: int
) -> tuple[list[list[int]], float, float]:
    """(new tokens of each row, seconds to the first one, seconds in total)."""
    device = model.embedding.device
    decoder = Decoder(
        model=model, eos_id=task.eos_id, banned=[], slide=task.slide, use_cache=task.cache
    )
    measure.synchronize(device)
    start = time.perf_counter()
    with decoding_mode(model):
        sampling = Sampling(decoder, prompts, GREEDY, new_tokens)
        sampling.step()
        first = time.perf_counter() - start
        for _ in range(new_tokens - 1):
            sampling.step()
    measure.synchronize(device)
    total = time.perf_counter() - start
    return sampling.tokens.tolist(), first, total


def measure_task(task: Task) -> dict[str, Any]:
    """Ids, seconds and memory of one setting."""
    model = _model(task)
    _timed(task, model, task.prompts, 2)  # warm-up
    ids, first, total = _timed(task, model, task.prompts, task.new_tokens)
    times = {
        "tokens_per_s": len(task.prompts) * task.new_tokens / total,
        "first_token_s": first,
        "rest_s_per_token": (total - first) / (task.new_tokens - 1),
    }
    if task.only_times:
        return times
    return {"ids": ids, **times, "peak_mib": peak_mib(task, model, ids)}


BENCH = measure.Bench(
    measure_task,
    conditions=("new_tokens", "cache"),
    times=("tokens_per_s", "first_token_s", "rest_s_per_token"),
    memory=("peak_mib",),
)


def peak_mib(task: Task, model: TinyLM, ids: list[list[int]]) -> float:
    """The allocator's peak; without a cache, in the step with the longest window. ids: new tokens."""
    device = model.embedding.device
    if task.cache:
        return measure.peak_mib(lambda: _timed(task, model, task.prompts, task.new_tokens), device)
    window = model.settings.context
    widest = [[*prompt, *new[:-1]][:window] for prompt, new in zip(task.prompts, ids, strict=True)]
    return measure.peak_mib(lambda: _timed(task, model, widest, 1), device)


def profile_task(task: Task) -> dict[str, Any]:
    """The shares of each kind of operation in a decoding step with the cache, from logits to greedy tokens."""
    model = _model(task).eval()
    session = Session(model, task.prompts, slide=task.slide, new_tokens=STEPS)

    def step() -> None:
        session.append(session.next_logits().argmax(-1).cpu())

    return {"shares": shares(model, step)}


def choose_batch(
    store: TokenStore, settings: KvBenchSettings, sos_id: int | None
) -> list[list[int]]:
    """The first tokens of `batch` stories, after <sos> if there is one.

    Raises InputError if too few stories are long enough.
    """
    chosen = choose_prompts(store, settings.batch, measure.PROMPT_TOKENS, 1, sos_id=sos_id)
    if len(chosen) < settings.batch:
        raise InputError(
            f"{PARAMS_FILE}: kv_bench.batch: expected at most {len(chosen)}, the number of whole evaluation stories "
            f"with more than {measure.PROMPT_TOKENS} tokens, got {settings.batch}; lower it or set apart more text "
            "(data.evaluation_stories, data.held_out_share)"
        )
    return [prompt.ids for prompt in chosen]


def make_tasks(settings: KvBenchSettings, prompts: list[list[int]], **shared: Any) -> list[Task]:
    """Each length without and with the cache, in turn; `shared` are the other fields of Task."""
    ways = itertools.product(settings.lengths, (False, True))
    return [
        Task(prompts=prompts, new_tokens=length, cache=cache, **shared) for length, cache in ways
    ]


def longest(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows of the most new tokens, cache "off" and "on" (with speedup); {} if not measured."""
    length = max(row["new_tokens"] for row in rows)
    by_cache = {row["cache"]: row for row in rows if row["new_tokens"] == length}
    off, on = by_cache.get(False, {}), by_cache.get(True, {})
    if off and on:
        on = on | {"speedup": round(on["tokens_per_s"] / off["tokens_per_s"], 2)}
    return {"off": off, "on": on}


def compare(
    results: Sequence[dict[str, Any]], task: Task
) -> tuple[list[int], list[dict[str, Any]]]:
    """(lengths of the settings that gave the same ids with and without the cache, ties on the way).

    The two ways add the same numbers in a different order, so two words whose logits differ by no
    more than rounding may swap ranks. Where the ids of a row first differ, both words are scored
    again: within TIE nats it is a tie, and the rest of the row is not compared, since each path
    continues its own text. Raises CommandFailed with the position of any other difference. `task`,
    which has all prompts, supplies the model.
    """
    compared: list[int] = []
    ties: list[dict[str, Any]] = []
    with_cache = {result["new_tokens"]: result["ids"] for result in results if result["cache"]}
    for plain in results:
        new_tokens = plain["new_tokens"]
        if plain["cache"] or new_tokens not in with_cache:
            continue
        compared.append(new_tokens)
        for row, (ids, others) in enumerate(zip(plain["ids"], with_cache[new_tokens], strict=True)):
            differing = np.flatnonzero(np.not_equal(ids, others))
            if not len(differing):
                continue
            position = int(differing[0])
            prefix = [*task.prompts[row], *ids[:position]]
            gap = logit_gap(task, prefix, ids[position], others[position])
            if not gap <= TIE:
                raise CommandFailed(
                    f"kv_bench: the cache changes ids: {new_tokens} new tokens, prompt {row}, "
                    f"new token {position}: {others[position]} with, {ids[position]} without; "
                    f"their logits are {gap:.2g} nats apart, more than a tie ({TIE})"
                )
            tie = {"new_tokens": new_tokens, "prompt": row, "position": position, "gap_nats": gap}
            ties.append(tie)
    return compared, ties


def logit_gap(task: Task, prefix: list[int], one: int, other: int) -> float:
    """How far apart the logits of two next tokens are after a prefix, without a cache."""
    session = Session(_model(task), [prefix], slide=task.slide, use_cache=False)
    logits = session.next_logits()[0]
    return abs(float(logits[one]) - float(logits[other]))

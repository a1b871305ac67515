"""Greedy decoding with and without the cache: the same ids at different cost."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.bench import measure
from tinylm.bench.measure import KvBenchSettings
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import CommandFailed
from tinylm.host.memory import own_peak_mib
from tinylm.kernels.decoding.decoder import ModelDecoder, decoder_of
from tinylm.model.checkpoint import new_model
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.text.prompts import choose_prompts
from tinylm.text.tokens.matrix_file import load_matrix
from tinylm.text.tokens.token_store import TokenStore

TIE = 1e-4  # nats; float32 logits of the two paths differ by about 1e-6
MEASURED = (
    "greedy, untrained model, fixed length, no stop; the time to the first token is the pass over the prompts, that of "
    "each further token the mean of a step of all rows; tokens/s counts all rows over the whole time; peak memory is "
    "the allocator's in one further run, above the weights and with the cache; without a cache it is that of the step "
    "with the longest window"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """Everything that a process needs for one setting."""

    model: ModelSettings
    decode: DecodeSettings
    prompts: list[list[int]]
    new_tokens: int
    cache: bool
    repeats: int
    eos_id: int | None
    embedding: str
    device: str
    threads: int


def greedy(decode: DecodeSettings) -> DecodeSettings:
    """The likeliest token at every step, nothing else: only `slide` of section `decode` is kept."""
    return dataclasses.replace(decode.greedy(), top_k=0, top_p=1.0)


def untrained_model(task: Task) -> TinyLM:
    """The model of section `model` with fresh weights, the same in every process."""
    device = pick_device(task.device)
    seed_everything(derive_seed(task.decode.seed, "kv_bench"), task.threads)
    return new_model(task.model, torch.from_numpy(load_matrix(task.embedding))).to(device).eval()


def measure_task(task: Task) -> dict[str, Any]:
    """Ids, seconds and memory of one setting; times are medians over the repeats."""
    model = untrained_model(task)
    device = model.embedding.device
    prompts, decode = task.prompts, greedy(task.decode)
    decoder = decoder_of(model, decode)

    def run(prompts: list[list[int]], new_tokens: int) -> tuple[list[list[int]], float, float]:
        arrivals: list[float] = []

        def on_token(prompt: int, token: int) -> None:
            if not arrivals:
                arrivals.append(time.perf_counter())

        measure.synchronize(device)
        start = time.perf_counter()
        found = generate(
            model, prompts, settings=decode, max_new_tokens=new_tokens, eos_id=task.eos_id,
            banned=[], on_token=on_token, use_cache=task.cache, stop_at_eos=False, decoder=decoder,
        )  # fmt: skip
        measure.synchronize(device)
        return [row.ids for row in found], arrivals[0] - start, time.perf_counter() - start

    run(prompts, 2)  # warm-up
    runs = [run(prompts, task.new_tokens) for _ in range(task.repeats)]
    first, total = (sorted(times)[len(times) // 2] for times in zip(*[r[1:] for r in runs]))
    process = own_peak_mib()
    ids = runs[0][0]
    if task.cache:
        peak = measure.peak_mib(lambda: run(prompts, task.new_tokens), device)
    else:
        window = task.model.context
        widest = [[*prompt, *new[:-1]][:window] for prompt, new in zip(prompts, ids, strict=True)]
        peak = measure.peak_mib(lambda: run(widest, 1), device)
    return {
        "ids": ids,
        "tokens_per_s": len(prompts) * task.new_tokens / total,
        "first_token_s": first,
        "rest_s_per_token": (total - first) / (task.new_tokens - 1),
        "cache_mib": cache_bytes(decoder, task) / measure.MIB,
        "peak_mib": peak,
        "process_mib": process,
    }


def cache_bytes(decoder: ModelDecoder, task: Task) -> int:
    """Bytes of the buffers that decoding keeps; 0 without a cache."""
    session = decoder.session(task.prompts, slide=task.decode.slide, use_cache=task.cache, new_tokens=task.new_tokens)
    session.next_logits()
    return session.cache_bytes


def choose_batch(
    store: TokenStore, settings: KvBenchSettings, model: ModelSettings, sos_id: int | None
) -> list[list[int]]:
    """The first tokens of `batch` stories, <sos> before them if there is one.

    Raises InputError if stories or context are too short.
    """
    longest = model.context - 2
    if settings.prompt_tokens > longest:
        raise InputError(
            f"{PARAMS_FILE}: kv_bench.prompt_tokens = {settings.prompt_tokens}; allowed: at most {longest}, "
            f"two less than model.context"
        )
    chosen = choose_prompts(store, settings.batch, settings.prompt_tokens, 1, sos_id=sos_id)
    prompts = [prompt.ids for prompt in chosen]
    if len(prompts) < settings.batch:
        raise InputError(
            f"{PARAMS_FILE}: kv_bench.batch = {settings.batch}; allowed: at most {len(prompts)}, as many "
            f"evaluation stories are whole and have more than {settings.prompt_tokens} words; or set apart more of the "
            "text (data.evaluation_stories, data.held_out_share)"
        )
    return prompts


def make_tasks(settings: KvBenchSettings, **shared: Any) -> list[Task]:
    """Each length without and with the cache, in turn; `shared` are the other fields of Task."""
    return [
        Task(new_tokens=length, cache=cache, repeats=settings.repeats, **shared)
        for length in settings.lengths
        for cache in (False, True)
    ]


def run(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Measure each task in its own process, one after the other, and print what it gave."""

    def known(task: Task) -> dict[str, Any]:
        setting = f"{task.new_tokens} new tokens, {'cache' if task.cache else 'no cache'}"
        past = len(task.prompts[0]) + task.new_tokens - 1 > task.model.context  # of the last step's window
        return {"setting": setting, "new_tokens": task.new_tokens, "cache": task.cache, "past_context": past}

    def figures(result: dict[str, Any]) -> str:
        return f"{result['tokens_per_s']:,.0f} tokens/s, peak {result['peak_mib'] or 0:.1f} MiB"

    return measure.run_tasks(measure_task, [(known(task), task) for task in tasks], figures)


def compare(results: Sequence[dict[str, Any]], task: Task) -> tuple[list[int], list[dict[str, Any]]]:
    """(lengths whose ids are equal with and without the cache, ties on the way).

    The two paths add the same numbers in another order, so two words whose logits differ by no more than rounding may
    swap places. Where the ids of a row first differ, both words are scored again: closer than TIE nats it is a tie
    and the row is not compared further, since each path rightly continues its own text. Raises CommandFailed with
    the place for any other difference. `task` supplies model and prompts.
    """
    lengths: list[int] = []
    ties: list[dict[str, Any]] = []
    for plain in results:
        cached = next((r for r in results if r["new_tokens"] == plain["new_tokens"] and r["cache"]), None)
        if plain["cache"] or cached is None:
            continue
        lengths.append(plain["new_tokens"])
        for row, (ids, others) in enumerate(zip(plain["ids"], cached["ids"], strict=True)):
            place = next((i for i, pair in enumerate(zip(ids, others, strict=True)) if pair[0] != pair[1]), None)
            if place is None:
                continue
            gap = logit_gap(task, [*task.prompts[row], *ids[:place]], ids[place], others[place])
            tie = {"new_tokens": plain["new_tokens"], "prompt": row, "position": place, "gap_nats": gap}
            if not gap <= TIE:
                raise CommandFailed(
                    f"kv_bench: with the cache other ids: {plain['new_tokens']} new tokens, prompt {row}, "
                    f"new token {place}: {others[place]} with, {ids[place]} without; "
                    f"their logits are {gap:.2g} nats apart, a tie is up to {TIE}"
                )
            ties.append(tie)
    return lengths, ties


def logit_gap(task: Task, prefix: list[int], one: int, other: int) -> float:
    """How far apart the logits of two next tokens are after a prefix, without a cache."""
    decoder = decoder_of(untrained_model(task), task.decode)
    logits = decoder.session([prefix], slide=task.decode.slide, use_cache=False).next_logits()[0]
    return abs(float(logits[one]) - float(logits[other]))

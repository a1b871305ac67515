"""Greedy decoding with and without the cache: the same ids at different cost."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.base.seeding import seed_everything
from tinylm.bench import trials
from tinylm.bench.device import peak_mib, synchronize
from tinylm.bench.operations import STEPS, as_profile, shares
from tinylm.bench.settings import PROMPT_TOKENS, KvBenchSettings
from tinylm.bench.trials import Failure, Trials, six_digits, spread
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import Sampling
from tinylm.decoding.session import Session, decoding_mode
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.run.benches import Cache, CacheSpeed, CacheTimes, NotMeasured, Tie
from tinylm.vocab.prompts import choose_prompts
from tinylm.vocab.token_store import TokenStore

SEED = 1
GREEDY = DecodeSettings(temperature=0.0)
TIE = 1e-4  # nats; float32 logits of the two paths differ by about 1e-6
PLOT_COLUMNS = ("new_tokens", "series", "value")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KvTask:
    """What a process needs to decode with or without the cache.

    The model is the one in the working directory. lengths: the numbers of new tokens at which time
    and memory are measured.
    """

    slide: str
    prompts: list[list[int]]
    lengths: tuple[int, ...]
    cache: bool
    eos_id: int | None
    runtime: RuntimeSettings

    @property
    def name(self) -> str:
        """The setting, in words."""
        return f"{', '.join(map(str, self.lengths))} new tokens, {_series(self.cache)}"

    @property
    def longest(self) -> int:
        """The largest length."""
        return max(self.lengths)


@dataclasses.dataclass(frozen=True)
class KvTimes:
    """Speed of decoding a batch to one length. rest_s_per_token: seconds for each token after the first."""

    tokens_per_s: float
    first_token_s: float
    rest_s_per_token: float


@dataclasses.dataclass(frozen=True)
class KvMeasurement:
    """What a trial measured, with or without the cache.

    times, peaks_mib: for each length. ids: the new tokens of each row, up to the longest length.
    """

    times: list[KvTimes]
    ids: list[list[int]]
    peaks_mib: list[float]

    def __str__(self) -> str:
        speeds = ", ".join(f"{times.tokens_per_s:,.0f}" for times in self.times)
        peaks = ", ".join(f"{peak:.1f}" for peak in self.peaks_mib)
        return f"{speeds} tokens/s, peak {peaks} MiB"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KvResult:
    """The results of the bench.

    settings: without and with the cache, as far as they could be measured. compared: the lengths at
    which ids with and without the cache were compared. ties: differences within rounding; any other
    one fails the bench. profile: the share of each kind of operation in a decoding step.
    """

    batch: int
    settings: Sequence[Trials[KvTask, KvMeasurement]]
    not_measured: Sequence[NotMeasured]
    compared: Sequence[int]
    ties: Sequence[Tie]
    profile: dict[str, float] | Failure


def choose_batch(
    store: TokenStore, settings: KvBenchSettings, sos_id: int | None
) -> list[list[int]]:
    """The first tokens of `batch` stories, after <sos> if there is one.

    Raises InputError if too few stories are long enough.
    """
    chosen = choose_prompts(store, settings.batch, PROMPT_TOKENS, 1, sos_id=sos_id)
    if len(chosen) < settings.batch:
        raise InputError(
            f"{PARAMS_FILE}: kv_bench.batch: expected at most {len(chosen)}, the number of whole evaluation stories "
            f"with more than {PROMPT_TOKENS} tokens, got {settings.batch}; lower it or set apart more text "
            "(data.evaluation_stories, data.held_out_share)"
        )
    return [prompt.ids for prompt in chosen]


def make_tasks(
    settings: KvBenchSettings,
    prompts: list[list[int]],
    slide: str,
    eos_id: int | None,
    runtime: RuntimeSettings,
) -> list[KvTask]:
    """Two tasks, without and with the cache.

    Each decodes once, to the longest length: a greedy text contains those of all shorter lengths.
    So a way that runs out of memory is measured at no length.
    """
    without = KvTask(
        slide=slide,
        prompts=prompts,
        lengths=settings.lengths,
        cache=False,
        eos_id=eos_id,
        runtime=runtime,
    )
    return [without, dataclasses.replace(without, cache=True)]


def run_bench(tasks: Sequence[KvTask]) -> KvResult:
    """Measure every task and compare the ids. Raises CommandFailed if the cache changes them."""
    settings, not_measured = trials.run_trials(tasks, measure, measure_times)
    compared, ties = compare_ids(settings)
    return KvResult(
        batch=len(tasks[0].prompts),
        settings=settings,
        not_measured=not_measured,
        compared=compared,
        ties=ties,
        profile=trials.in_own_process(profile_step, tasks[-1]),
    )


def measure(task: KvTask) -> KvMeasurement:
    """Ids, and seconds and memory at each length."""
    model = _model(task)
    ids, seconds = _decode_after_warm_up(task, model)
    peaks = [_peak_mib(task, model, ids, length) for length in task.lengths]
    return KvMeasurement(_times(task, seconds), ids, peaks)


def measure_times(task: KvTask) -> list[KvTimes]:
    """Decoding times at each length."""
    _, seconds = _decode_after_warm_up(task, _model(task))
    return _times(task, seconds)


def _model(task: KvTask) -> TinyLM:
    """The trained model. Its own code decodes, so that the two ways differ only in the cache."""
    seed_everything(SEED, task.runtime.threads)
    return load_model(paths.MODELS, pick_device(task.runtime.device))[0]


def _decode_after_warm_up(task: KvTask, model: TinyLM) -> tuple[list[list[int]], list[float]]:
    _decode(task, model, task.prompts, 2)
    return _decode(task, model, task.prompts, task.longest)


def _decode(
    task: KvTask, model: TinyLM, prompts: list[list[int]], new_tokens: int
) -> tuple[list[list[int]], list[float]]:
    """(new tokens of each row, seconds from the start to each of them)."""
    decoder = Decoder(
        model=model, eos_id=task.eos_id, banned=[], slide=task.slide, use_cache=task.cache
    )
    seconds = []
    synchronize(model.embedding.device)
    start = time.perf_counter()
    with decoding_mode(model):
        sampling = Sampling(decoder, prompts, GREEDY, new_tokens)
        for _ in range(new_tokens):
            sampling.step()  # waits for the device, whose tokens it copies to the CPU
            seconds.append(time.perf_counter() - start)
    return sampling.tokens.tolist(), seconds


def _times(task: KvTask, seconds: list[float]) -> list[KvTimes]:
    """The times at each length. seconds: from the start to each new token."""
    first = seconds[0]
    found = []
    for length in task.lengths:
        total = seconds[length - 1]
        times = KvTimes(
            tokens_per_s=len(task.prompts) * length / total,
            first_token_s=first,
            rest_s_per_token=(total - first) / (length - 1),
        )
        found.append(times)
    return found


def _peak_mib(task: KvTask, model: TinyLM, ids: list[list[int]], length: int) -> float:
    """The allocator's peak in decoding to a length. ids: new tokens.

    With the cache, whose size depends on the length, the text is decoded again; without, its step
    with the longest window.
    """
    device = model.embedding.device
    if task.cache:
        return peak_mib(lambda: _decode(task, model, task.prompts, length), device)
    window = model.settings.context
    texts = zip(task.prompts, ids, strict=True)
    widest = [[*prompt, *new[: length - 1]][:window] for prompt, new in texts]
    return peak_mib(lambda: _decode(task, model, widest, 1), device)


def profile_step(task: KvTask) -> dict[str, float]:
    """The shares of each kind of operation in a decoding step with the cache, from logits to greedy tokens."""
    model = _model(task).eval()
    session = Session(model, task.prompts, slide=task.slide, new_tokens=STEPS)

    def step() -> None:
        session.append(session.next_logits().argmax(-1).cpu())

    return shares(model, step)


def compare_ids(
    settings: Sequence[Trials[KvTask, KvMeasurement]],
) -> tuple[list[int], list[Tie]]:
    """(lengths measured both with and without the cache, ties at each of them).

    The two ways add the same numbers in a different order, so two words whose logits differ by no
    more than rounding may swap ranks. Where the ids of a row first differ, both words are scored
    again: within TIE nats it is a tie, and the rest of the row is not compared, since each path
    continues its own text. Raises CommandFailed with the position of any other difference.
    """
    ways = {run.task.cache: run for run in settings}
    if len(ways) < 2:
        return [], []
    task = ways[False].task
    with_cache = ways[True].first.ids
    ties = []
    for row, ids in enumerate(ways[False].first.ids):
        tie = _first_difference(task, row, ids, with_cache[row])
        if tie is not None:
            ties.append(tie)
    ties_by_length = []
    for length in task.lengths:
        inside = [tie for tie in ties if tie.position < length]
        ties_by_length += [dataclasses.replace(tie, new_tokens=length) for tie in inside]
    return list(task.lengths), ties_by_length


def _first_difference(task: KvTask, row: int, ids: list[int], others: list[int]) -> Tie | None:
    """The tie where ids of a row without and with the cache first differ; None if they never do."""
    differing = np.flatnonzero(np.not_equal(ids, others))
    if not len(differing):
        return None
    position = int(differing[0])
    prefix = [*task.prompts[row], *ids[:position]]
    gap = logit_gap(task, prefix, ids[position], others[position])
    if not gap <= TIE:
        raise CommandFailed(
            f"kv_bench: the cache changes ids: {task.longest} new tokens, prompt {row}, "
            f"new token {position}: {others[position]} with, {ids[position]} without; "
            f"their logits are {gap:.2g} nats apart, more than a tie ({TIE})"
        )
    return Tie(task.longest, row, position, gap)


def logit_gap(task: KvTask, prefix: list[int], one: int, other: int) -> float:
    """How far apart the logits of two next tokens are after a prefix, without a cache."""
    session = Session(_model(task), [prefix], slide=task.slide, use_cache=False)
    logits = session.next_logits()[0]
    return abs(float(logits[one]) - float(logits[other]))


def plotted_speeds(result: KvResult) -> list[tuple[int, str, float]]:
    """plots/kv_bench.csv: (new tokens, series, tokens per second)."""
    return [(row.new_tokens, _series(row.cache), row.tokens_per_s) for row in _speeds(result)]


def _series(cache: bool) -> str:
    return "cache" if cache else "no cache"


def results_of(result: KvResult) -> Cache:
    """The results that stage kv_bench writes."""
    return Cache(
        batch=result.batch,
        prompt_tokens=PROMPT_TOKENS,
        same_ids=not result.ties if result.compared else None,
        compared=list(result.compared),
        ties=list(result.ties),
    )


def times_of(result: KvResult) -> CacheTimes:
    """The times that stage kv_bench writes."""
    return CacheTimes(
        settings=_speeds(result),
        profile=as_profile(result.profile),
        not_measured=list(result.not_measured),
        trials=trials.TRIALS,
    )


def _speeds(result: KvResult) -> list[CacheSpeed]:
    """The speed and memory at each length without and with the cache, to six significant digits."""
    speeds = []
    for index, length in enumerate(result.settings[0].task.lengths):
        for run in result.settings:
            speed = CacheSpeed(
                new_tokens=length,
                cache=run.task.cache,
                **spread([times[index] for times in run.times]),
                peak_mib=six_digits(run.first.peaks_mib[index]),
            )
            speeds.append(speed)
    return speeds


def metrics_of(times: CacheTimes) -> dict[str, dict[str, float | None]]:
    """Metrics in rows kv/off and kv/on: the largest length without and with the cache.

    None where nothing was measured.
    """
    on, off = times.of_longest()
    speedup = round(on.tokens_per_s / off.tokens_per_s, 2) if on and off else None
    return {
        "kv/off": {
            "tokens/s": off.tokens_per_s if off else None,
            "peak_mib": off.peak_mib if off else None,
        },
        "kv/on": {
            "tokens/s": on.tokens_per_s if on else None,
            "speedup": speedup,
            "peak_mib": on.peak_mib if on else None,
        },
    }

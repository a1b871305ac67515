"""Greedy decoding with and without the cache: the same ids at different cost."""

import dataclasses
import itertools
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
from tinylm.bench.trials import Failure, Trials, six_digits
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
    """What a process needs for one setting. The model is the one in the working directory."""

    slide: str
    prompts: list[list[int]]
    new_tokens: int
    cache: bool
    eos_id: int | None
    runtime: RuntimeSettings

    @property
    def name(self) -> str:
        """The setting, in words."""
        return f"{self.new_tokens} new tokens, {_series(self)}"


@dataclasses.dataclass(frozen=True)
class KvTimes:
    """Speed of decoding a batch. rest_s_per_token: seconds for each token after the first."""

    tokens_per_s: float
    first_token_s: float
    rest_s_per_token: float


@dataclasses.dataclass(frozen=True)
class KvMeasurement:
    """One setting, measured. ids: the new tokens of each row."""

    times: KvTimes
    ids: list[list[int]]
    peak_mib: float

    def __str__(self) -> str:
        return f"{self.times.tokens_per_s:,.0f} tokens/s, peak {self.peak_mib:.1f} MiB"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KvResult:
    """The results of the bench.

    compared: the lengths at which ids with and without the cache were compared. ties: differences
    within rounding; any other one fails the bench. profile: the share of each kind of operation in
    a decoding step.
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
    """A task for each length, first without and then with the cache."""
    tasks = []
    for length, cache in itertools.product(settings.lengths, (False, True)):
        task = KvTask(
            slide=slide,
            prompts=prompts,
            new_tokens=length,
            cache=cache,
            eos_id=eos_id,
            runtime=runtime,
        )
        tasks.append(task)
    return tasks


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
    """Ids, seconds and memory of one setting."""
    model = _model(task)
    ids, times = _decode_after_warm_up(task, model)
    return KvMeasurement(times, ids, _peak_mib(task, model, ids))


def measure_times(task: KvTask) -> KvTimes:
    """Decoding times of one setting."""
    return _decode_after_warm_up(task, _model(task))[1]


def _model(task: KvTask) -> TinyLM:
    """The trained model. Its own code decodes, so that the two ways differ only in the cache."""
    seed_everything(SEED, task.runtime.threads)
    return load_model(paths.MODELS, pick_device(task.runtime.device))[0]


def _decode_after_warm_up(task: KvTask, model: TinyLM) -> tuple[list[list[int]], KvTimes]:
    _decode(task, model, task.prompts, 2)
    ids, first, total = _decode(task, model, task.prompts, task.new_tokens)
    times = KvTimes(
        tokens_per_s=len(task.prompts) * task.new_tokens / total,
        first_token_s=first,
        rest_s_per_token=(total - first) / (task.new_tokens - 1),
    )
    return ids, times


def _decode(
    task: KvTask, model: TinyLM, prompts: list[list[int]], new_tokens: int
) -> tuple[list[list[int]], float, float]:
    """(new tokens of each row, seconds to the first one, seconds in total)."""
    device = model.embedding.device
    decoder = Decoder(
        model=model, eos_id=task.eos_id, banned=[], slide=task.slide, use_cache=task.cache
    )
    synchronize(device)
    start = time.perf_counter()
    with decoding_mode(model):
        sampling = Sampling(decoder, prompts, GREEDY, new_tokens)
        sampling.step()
        first = time.perf_counter() - start
        for _ in range(new_tokens - 1):
            sampling.step()
    synchronize(device)
    total = time.perf_counter() - start
    return sampling.tokens.tolist(), first, total


def _peak_mib(task: KvTask, model: TinyLM, ids: list[list[int]]) -> float:
    """The allocator's peak; without a cache, in the step with the longest window. ids: new tokens."""
    device = model.embedding.device
    if task.cache:
        return peak_mib(lambda: _decode(task, model, task.prompts, task.new_tokens), device)
    window = model.settings.context
    widest = [[*prompt, *new[:-1]][:window] for prompt, new in zip(task.prompts, ids, strict=True)]
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
    """(lengths measured both with and without the cache, ties).

    The two ways add the same numbers in a different order, so two words whose logits differ by no
    more than rounding may swap ranks. Where the ids of a row first differ, both words are scored
    again: within TIE nats it is a tie, and the rest of the row is not compared, since each path
    continues its own text. Raises CommandFailed with the position of any other difference.
    """
    compared = []
    ties = []
    with_cache = {run.task.new_tokens: run.first.ids for run in settings if run.task.cache}
    for run in settings:
        task = run.task
        if task.cache or task.new_tokens not in with_cache:
            continue
        compared.append(task.new_tokens)
        others = with_cache[task.new_tokens]
        for row in range(len(task.prompts)):
            tie = _first_difference(task, row, run.first.ids[row], others[row])
            if tie is not None:
                ties.append(tie)
    return compared, ties


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
            f"kv_bench: the cache changes ids: {task.new_tokens} new tokens, prompt {row}, "
            f"new token {position}: {others[position]} with, {ids[position]} without; "
            f"their logits are {gap:.2g} nats apart, more than a tie ({TIE})"
        )
    return Tie(task.new_tokens, row, position, gap)


def logit_gap(task: KvTask, prefix: list[int], one: int, other: int) -> float:
    """How far apart the logits of two next tokens are after a prefix, without a cache."""
    session = Session(_model(task), [prefix], slide=task.slide, use_cache=False)
    logits = session.next_logits()[0]
    return abs(float(logits[one]) - float(logits[other]))


def plotted_speeds(result: KvResult) -> list[tuple[int, str, float]]:
    """plots/kv_bench.csv: (new tokens, series, tokens per second)."""
    rows = []
    for run in result.settings:
        speed = run.times_row()["tokens_per_s"]
        rows.append((run.task.new_tokens, _series(run.task), speed))
    return rows


def _series(task: KvTask) -> str:
    return "cache" if task.cache else "no cache"


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
    """The speed and memory of each setting, to six significant digits."""
    speeds = []
    for run in result.settings:
        speed = CacheSpeed(
            new_tokens=run.task.new_tokens,
            cache=run.task.cache,
            **run.times_row(),
            peak_mib=six_digits(run.first.peak_mib),
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

"""Beam search compared with greedy decoding and sampling: quality and speed."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.base.seeding import seed_everything
from tinylm.bench import trials
from tinylm.bench.device import synchronize
from tinylm.bench.settings import PROMPT_TOKENS, BeamBenchSettings
from tinylm.bench.trials import Trials
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import load_model
from tinylm.run.benches import Beams, BeamTimes, MethodQuality, MethodSpeed, NotMeasured
from tinylm.run.interval import Interval, wilson
from tinylm.storybook.truth import read_text
from tinylm.storybook.world import World
from tinylm.text.diversity import distinct_n, repeated_share
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.prompts import Prompt, choose_prompts, without_repeats
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

JUDGED = 50  # further prompts whose continuations the story generator judges
PLOT_COLUMNS = ("method", "width", "series", "value")


@dataclasses.dataclass(frozen=True)
class BenchPrompts:
    """The prompts that every method continues.

    compared: timed, each with a reference. judged: not timed; the generator checks whether their
    continuations are possible. Empty if the generator did not write the stories. world: the generator.
    """

    compared: list[Prompt]
    judged: list[Prompt]
    world: World | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamTask:
    """What a process needs to measure one method: beam search, or token by token if `width` is None.

    The model is the one trained in the working directory. compared, judged: ids of the prompts.
    """

    name: str
    width: int | None
    decode: DecodeSettings
    slide: str
    settings: BeamBenchSettings
    runtime: RuntimeSettings
    compared: list[list[int]]
    judged: list[list[int]]


@dataclasses.dataclass(frozen=True)
class Continuation:
    """New tokens after a prompt, and their log-probability in nats under the model's own distribution."""

    ids: list[int]
    log_prob: float


@dataclasses.dataclass(frozen=True)
class TrialSpeed:
    """Speed of a method, in tokens of the returned continuations.

    tokens_per_s, s_per_prompt: one prompt at a time, medians. batch_tokens_per_s: all at once.
    """

    tokens_per_s: float
    s_per_prompt: float
    batch_tokens_per_s: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamMeasurement:
    """One method, measured: its speed, and a continuation of each prompt, which may end at <eos>.

    step: the name of the decoding step.
    """

    times: TrialSpeed
    compared: list[Continuation]
    judged: list[Continuation]
    step: str

    def __str__(self) -> str:
        return f"{self.times.tokens_per_s:,.0f} tokens/s"


class OutputRow(NamedTuple):
    """One method's text for one prompt, a row of outputs.csv. score: what beam search ranks by."""

    prompt: str
    reference: str
    method: str
    text: str
    log_prob: float
    score: float


@dataclasses.dataclass(frozen=True)
class Method:
    """One measured decoding method, with its texts in words and their metrics."""

    trials: Trials[BeamTask, BeamMeasurement]
    outputs: list[OutputRow]
    quality: MethodQuality

    @property
    def name(self) -> str:
        """Its name in the results."""
        return self.trials.task.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamResult:
    """The results of the bench."""

    settings: BeamBenchSettings
    prompts: BenchPrompts
    methods: Sequence[Method]
    not_measured: Sequence[NotMeasured]

    @property
    def step(self) -> str:
        """The name of the decoding step."""
        return self.methods[0].trials.first.step


def choose_bench_prompts(
    store: TokenStore, settings: BeamBenchSettings, sos_id: int | None, world: World | None
) -> BenchPrompts:
    """Beginnings of evaluation stories. world: what wrote them; other text has no judged prompts."""
    compared = story_prompts(store, settings, sos_id)
    judged = []
    if world:
        more = story_prompts(store, dataclasses.replace(settings, prompts=JUDGED), sos_id)
        different = {tuple(prompt.ids): prompt for prompt in more}
        judged = list(different.values())
    return BenchPrompts(compared, judged, world)


def story_prompts(
    store: TokenStore, settings: BeamBenchSettings, sos_id: int | None
) -> list[Prompt]:
    """Evaluation stories spread over the split, each with its own next `new_tokens` tokens as the reference.

    No two have the same prompt and reference. Raises InputError if no story is long enough; if there are fewer than
    asked for, all are taken. sos_id: as for `choose_prompts`.
    """
    prompts = choose_prompts(
        store, settings.prompts, PROMPT_TOKENS, settings.new_tokens, sos_id=sos_id
    )
    if not prompts:
        raise InputError(
            "stage beam_bench: expected a whole evaluation story of more than "
            f"{PROMPT_TOKENS} tokens, got none; raise data.evaluation_stories"
        )
    return without_repeats(prompts)


def make_tasks(
    settings: BeamBenchSettings,
    decode: DecodeSettings,
    slide: str,
    prompts: BenchPrompts,
    runtime: RuntimeSettings,
) -> list[BeamTask]:
    """Tasks for sampling (section decode), greedy decoding (temperature 0, no penalty) and each beam width."""
    sampling = BeamTask(
        name="sampling",
        width=None,
        decode=decode,
        slide=slide,
        settings=settings,
        runtime=runtime,
        compared=[prompt.ids for prompt in prompts.compared],
        judged=[prompt.ids for prompt in prompts.judged],
    )
    tasks = [sampling, dataclasses.replace(sampling, name="greedy", decode=decode.greedy())]
    for width in settings.widths:
        tasks.append(dataclasses.replace(sampling, name=f"beam {width}", width=width))
    return tasks


def run_bench(tasks: Sequence[BeamTask], prompts: BenchPrompts, tokenizer: Tokenizer) -> BeamResult:
    """Measure every task, and judge its texts. Raises CommandFailed if nothing could be measured."""
    measured, not_measured = trials.run_trials(tasks, measure, measure_times)
    methods = [judge_method(method, prompts, tokenizer) for method in measured]
    return BeamResult(
        settings=tasks[0].settings, prompts=prompts, methods=methods, not_measured=not_measured
    )


def measure(task: BeamTask) -> BeamMeasurement:
    """One method: its speed under the settings' stop rule, then its texts, which may stop at <eos>."""
    method = _Decoding(task)
    return BeamMeasurement(
        times=method.times(),
        judged=method.continue_prompts(task.judged, stop_at_eos=True),
        compared=method.continue_prompts(task.compared, stop_at_eos=True),
        step=method.step.name,
    )


def measure_times(task: BeamTask) -> TrialSpeed:
    """The speed of one method."""
    return _Decoding(task).times()


class _Decoding:
    """Decodes with the trained model, by the settings of a task."""

    def __init__(self, task: BeamTask) -> None:
        self.task = task
        self.device = pick_device(task.runtime.device)
        seed_everything(task.decode.seed, task.runtime.threads)
        model, _ = load_model(paths.MODELS, self.device)
        self.step = decoding_step(model)
        tokenizer = open_tokenizer(paths.TOKENIZER)
        self.decoder = Decoder(
            model=model,
            eos_id=tokenizer.eos_id,
            banned=banned_ids(tokenizer),
            slide=task.slide,
            use_cache=task.settings.cache,
            step=self.step,
        )

    def continue_prompts(
        self, prompts: Sequence[Sequence[int]], *, stop_at_eos: bool
    ) -> list[Continuation]:
        """The best continuation of each prompt."""
        task = self.task
        new_tokens = task.settings.new_tokens
        if task.width is None:
            rows = generate(
                self.decoder,
                prompts,
                task.decode,
                max_new_tokens=new_tokens,
                stop_at_eos=stop_at_eos,
                with_log_probs=True,
            )
            return [Continuation(row.ids, sum(row.log_probs)) for row in rows]
        beams = BeamSettings(width=task.width, length_penalty=task.settings.length_penalty)
        found = beam_search(
            self.decoder, prompts, beams, max_new_tokens=new_tokens, stop_at_eos=stop_at_eos
        )
        return [Continuation(best.ids, best.log_prob) for best, *_ in found]

    def times(self) -> TrialSpeed:
        """The speed, after a warm-up."""
        prompts = self.task.compared
        self._timed(prompts[:1])
        alone = [self._timed([prompt]) for prompt in prompts]
        tokens, together = self._timed(prompts)
        return TrialSpeed(
            tokens_per_s=statistics.median(count / seconds for count, seconds in alone),
            s_per_prompt=statistics.median(seconds for _, seconds in alone),
            batch_tokens_per_s=tokens / together,
        )

    def _timed(self, prompts: list[list[int]]) -> tuple[int, float]:
        """(new tokens of all prompts, seconds)."""
        synchronize(self.device)
        begun = time.perf_counter()
        texts = self.continue_prompts(prompts, stop_at_eos=self.task.settings.stop_at_eos)
        synchronize(self.device)
        return sum(len(text.ids) for text in texts), time.perf_counter() - begun


def judge_method(
    method: Trials[BeamTask, BeamMeasurement], prompts: BenchPrompts, tokenizer: Tokenizer
) -> Method:
    """A method's texts in words, and their metrics."""
    continuations = method.first.compared
    alpha = method.task.settings.length_penalty
    outputs = []
    for prompt, continuation in zip(prompts.compared, continuations, strict=True):
        row = OutputRow(
            prompt=tokenizer.decode(prompt.ids),
            reference=tokenizer.decode(prompt.reference),
            method=method.task.name,
            text=tokenizer.decode(continuation.ids),
            log_prob=continuation.log_prob,
            score=continuation.log_prob / max(len(continuation.ids), 1) ** alpha,
        )
        outputs.append(row)
    measured = quality(outputs, continuations)
    if prompts.world and prompts.judged:
        possible, judged = share_possible(
            prompts.judged, method.first.judged, tokenizer, prompts.world
        )
        measured = dataclasses.replace(measured, possible=possible, judged=judged)
    return Method(method, outputs, measured)


def share_possible(
    prompts: Sequence[Prompt],
    continuations: Sequence[Continuation],
    tokenizer: Tokenizer,
    world: World,
) -> tuple[Interval | None, int]:
    """(the share of the continuations that the story generator could have written after their prompts, of how many).

    Prompts that it could not have written are left out.
    """
    read = []
    for prompt, continuation in zip(prompts, continuations, strict=True):
        ids = continuation.ids
        is_ended = bool(ids) and ids[-1] == tokenizer.eos_id
        start, text = tokenizer.decode(prompt.ids), tokenizer.decode(ids)
        found = read_text(start, text, is_ended, world, pieces=tokenizer.kind != "words")
        if found is not None:
            read.append(found)
    return wilson(sum(error is None for _, error in read), len(read)), len(read)


def quality(outputs: Sequence[OutputRow], continuations: Sequence[Continuation]) -> MethodQuality:
    """Metrics of one method over all prompts; an <eos> that ended a text is one of its tokens."""
    from tinylm.text.bleu import Bleu  # takes seconds to import

    texts = [row.text for row in outputs]
    bleu = Bleu().compute(predictions=texts, references=[row.reference for row in outputs])
    tokens = sum(len(continuation.ids) for continuation in continuations)
    log_prob = sum(continuation.log_prob for continuation in continuations)
    return MethodQuality(
        bleu4=bleu["bleu4"],
        log_prob_per_token=log_prob / max(tokens, 1),
        distinct2=distinct_n(texts, 2),
        repeated_4grams=repeated_share(texts, 4),
    )


def side_by_side(result: BeamResult) -> list[OutputRow]:
    """outputs.csv: the texts of all methods for the first prompt, for the second, and so on."""
    by_prompt = zip(*(method.outputs for method in result.methods), strict=True)
    return list(itertools.chain.from_iterable(by_prompt))


def plotted_speeds(result: BeamResult) -> list[tuple[str, int, str, float]]:
    """plots/beam_bench.csv: (method, width, series, tokens per second)."""
    widths = {method.name: method.trials.task.width or 1 for method in result.methods}
    rows = []
    for key, series in (
        ("tokens_per_s", "one prompt"),
        ("batch_tokens_per_s", "all prompts at once"),
    ):
        for name, speeds in _speeds(result).items():
            rows.append((name, widths[name], series, getattr(speeds, key)))
    return rows


def results_of(result: BeamResult) -> Beams:
    """The results that stage beam_bench writes."""
    methods = {method.name: method.quality for method in result.methods}
    return Beams(len(result.prompts.compared), result.settings.new_tokens, methods)


def times_of(result: BeamResult) -> BeamTimes:
    """The times that stage beam_bench writes."""
    return BeamTimes(
        methods=_speeds(result), not_measured=list(result.not_measured), trials=trials.TRIALS
    )


def metrics_of(result: BeamResult) -> dict[str, dict[str, float | None]]:
    """A row of metrics for each width, with None where nothing was measured."""
    qualities = {method.name: method.quality for method in result.methods}
    speeds = _speeds(result)
    metrics: dict[str, dict[str, float | None]] = {}
    for width in result.settings.widths:
        name = f"beam {width}"
        is_measured = name in qualities
        metrics[f"beam/{width}"] = {
            "bleu": qualities[name].bleu4 if is_measured else None,
            "tokens/s": speeds[name].tokens_per_s if is_measured else None,
        }
    return metrics


def _speeds(result: BeamResult) -> dict[str, MethodSpeed]:
    """The speed of each method, to six significant digits."""
    return {method.name: MethodSpeed(**method.trials.times_row()) for method in result.methods}

"""Beam search compared with greedy decoding and sampling: quality and speed."""

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.seeding import seed_everything
from tinylm.bench import measure
from tinylm.bench.measure import BeamBenchSettings
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Step
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.diversity import distinct_n, repeated_share
from tinylm.evaluate.statistics import bootstrap_interval, mean
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import load_model
from tinylm.vocab.prompts import Prompt, choose_prompts
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer, open_tokenizer

TIMES = ("tokens_per_s", "s_per_prompt", "batch_tokens_per_s")
COLUMNS = ("prompt", "reference", "method", "text", "log_prob", "score")
PLOTTED = {"tokens_per_s": "one prompt", "batch_tokens_per_s": "all prompts at once"}
JUDGED = 50  # further prompts whose continuations the story generator judges
RESAMPLES = 1000  # for the intervals
EQUAL = 1e-2  # nats: sums of the same log-probabilities in another order differ by less


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """Everything that a process needs for one method: a beam search of `width`, or token by token if it is None.

    judged: further prompts, whose continuations are only judged: do they make sense? Empty for
    stories that the built-in generator did not write.
    """

    name: str
    width: int | None
    decode: DecodeSettings
    settings: BeamBenchSettings
    prompts: list[list[int]]
    model: str
    tokenizer: str
    device: str
    threads: int
    judged: Sequence[Sequence[int]] = ()


def check_widths(settings: BeamBenchSettings, vocab_size: int) -> None:
    """Raise InputError for a width larger than the vocabulary."""
    wide = [width for width in settings.widths if width > vocab_size]
    if wide:
        raise InputError(
            f"{PARAMS_FILE}: beam_bench.widths = {wide}; allowed: at most the vocabulary's {vocab_size}"
        )


def make_tasks(settings: BeamBenchSettings, decode: DecodeSettings, **shared: Any) -> list[Task]:
    """sampling (section decode), greedy (temperature 0, no penalty) and each beam; `shared`: Task's other fields."""
    methods: list[tuple[str, int | None, DecodeSettings]] = [("sampling", None, decode)]
    methods += [("greedy", None, decode.greedy())]
    methods += [(f"beam {width}", width, decode) for width in settings.widths]
    return [
        Task(name=name, width=width, decode=how, settings=settings, **shared)
        for name, width, how in methods
    ]


def continue_prompts(
    task: Task,
    step: Step,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    *,
    stop_at_eos: bool,
) -> list[tuple[list[int], float]]:
    """Each prompt's new tokens and their log-probability in nats under the model's own distribution."""
    shared: dict[str, Any] = {
        "max_new_tokens": task.settings.new_tokens, "eos_id": tokenizer.eos_id, "banned": banned_ids(tokenizer),
        "use_cache": task.settings.cache, "stop_at_eos": stop_at_eos, "step": step,
    }  # fmt: skip
    if task.width is None:
        rows = generate(step.model, prompts, settings=task.decode, with_log_probs=True, **shared)
        return [(row.ids, sum(row.log_probs)) for row in rows]
    shared |= {"length_penalty": task.decode.length_penalty, "slide": task.decode.slide}
    return [
        (best.ids, best.log_prob)
        for best, *_ in beam_search(step.model, prompts, width=task.width, **shared)
    ]


def _prepared(task: Task) -> tuple[Step, Tokenizer, Any]:
    """(step of the trained model, tokenizer, device) of a method."""
    device = pick_device(task.device)
    seed_everything(task.decode.seed, task.threads)
    model, _ = load_model(task.model, device)
    return decoding_step(model, task.decode), open_tokenizer(task.tokenizer), device


def measure_task(task: Task) -> dict[str, Any]:
    """One method: its texts, which may stop at <eos>, then its speed under the settings' stop rule."""
    step, tokenizer, _ = _prepared(task)
    judged = []
    if task.judged:
        judged = continue_prompts(task, step, tokenizer, task.judged, stop_at_eos=True)
    texts = continue_prompts(task, step, tokenizer, task.prompts, stop_at_eos=True)
    return {"texts": texts, "judged": judged, "step": step.name, **time_task(task)}


def time_task(task: Task) -> dict[str, float]:
    """Tokens of the returned continuations over seconds, one prompt at a time (medians) and all at once."""
    step, tokenizer, device = _prepared(task)

    def timed(prompts: list[list[int]]) -> tuple[int, float]:
        measure.synchronize(device)
        begun = time.perf_counter()
        texts = continue_prompts(
            task, step, tokenizer, prompts, stop_at_eos=task.settings.stop_at_eos
        )
        measure.synchronize(device)
        return sum(len(ids) for ids, _ in texts), time.perf_counter() - begun

    timed(task.prompts[:1])  # warm-up
    alone = [timed([prompt]) for prompt in task.prompts]
    tokens, together = timed(task.prompts)
    return {
        "tokens_per_s": statistics.median(count / seconds for count, seconds in alone),
        "s_per_prompt": statistics.median(seconds for _, seconds in alone),
        "batch_tokens_per_s": tokens / together,
    }


def conditions(settings: BeamBenchSettings) -> dict[str, Any]:
    """Part of each method's metrics: cache and stop rule of the timed run, stop rule of the texts."""
    return {
        "cache": settings.cache,
        "stop_at_eos": settings.stop_at_eos,
        "texts_stop_at_eos": True,
    }


def run(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Measure each method, then time all of them again in turn, and print its speed (see `measure.run_trials`)."""
    named = [({"setting": task.name}, task) for task in tasks]
    trials = max((task.settings.repeats for task in tasks), default=1)
    return measure.run_trials(
        measure_task, time_task, named, times=TIMES, trials=trials,
        describe=lambda result: f"{result['tokens_per_s']:,.0f} tokens/s",
    )  # fmt: skip


def story_prompts(
    store: TokenStore, settings: BeamBenchSettings, sos_id: int | None
) -> list[Prompt]:
    """Evaluation stories spread over the split, each with its own next `new_tokens` tokens as the reference.

    Raises InputError if no story is long enough; if there are fewer than asked for, all are taken. sos_id: as for
    `choose_prompts`.
    """
    prompts = choose_prompts(
        store, settings.prompts, settings.prompt_tokens, settings.new_tokens, sos_id=sos_id
    )
    if not prompts:
        raise InputError(
            f"{PARAMS_FILE}: beam_bench.prompt_tokens = {settings.prompt_tokens}; allowed: less than the words of the "
            f"longest whole evaluation story"
        )
    return prompts


def judged_prompts(
    store: TokenStore, settings: BeamBenchSettings, sos_id: int | None, source: str
) -> list[Prompt]:
    """Different prompts for `Task.judged`; none if another source than the generator wrote the stories."""
    if source != "storybook":
        return []
    prompts = story_prompts(store, dataclasses.replace(settings, prompts=JUDGED), sos_id)
    return list({tuple(prompt.ids): prompt for prompt in prompts}.values())


def table(
    result: dict[str, Any], prompts: Sequence[Prompt], tokenizer: Tokenizer, alpha: float
) -> list[dict[str, Any]]:
    """The texts of one method, one row per prompt; score = log_prob / tokens ** alpha, as beam search orders."""
    return [
        {
            "prompt": tokenizer.decode(prompt.ids),
            "reference": tokenizer.decode(prompt.reference),
            "method": result["setting"],
            "text": tokenizer.decode(ids),
            "log_prob": log_prob,
            "score": log_prob / max(len(ids), 1) ** alpha,
        }
        for prompt, (ids, log_prob) in zip(prompts, result["texts"], strict=True)
    ]


def side_by_side(texts: Mapping[str, Sequence[dict[str, Any]]]) -> list[list[Any]]:
    """The rows of all methods, prompt by prompt."""
    rows = []
    for rows_of_prompt in zip(*texts.values(), strict=True):
        for row in rows_of_prompt:
            rows.append([row[column] for column in COLUMNS])
    return rows


def judge(result: dict[str, Any], task: Task, tokenizer: Tokenizer) -> dict[str, Any]:
    """Whether a method's continuations of the task's `judged` prompts make sense: key `sense`; none without prompts."""
    from tinylm.evaluate.sense import grade, sense

    if not task.judged:
        return {}
    texts = [
        (tokenizer.decode(prompt), tokenizer.decode(ids), bool(ids) and ids[-1] == tokenizer.eos_id)
        for prompt, (ids, _) in zip(task.judged, result["judged"], strict=True)
    ]
    return {"sense": sense(grade(texts), RESAMPLES, task.decode.seed)}


def against_greedy(
    result: dict[str, Any], greedy: dict[str, Any], seed: int
) -> dict[str, dict[str, Any]]:
    """Key `against_greedy`: for how many prompts a method's text is more or less probable than greedy decoding's.

    The prompts are the judged ones where there are any, since they are more. difference: of the log-probabilities in
    nats a text, mean over prompts with its 95 % bootstrap interval; 0 if it is no more than rounding.
    """
    key = "judged" if result["judged"] else "texts"
    pairs = []
    for (_, nats), (_, theirs) in zip(result[key], greedy[key], strict=True):
        pairs.append(nats - theirs if abs(nats - theirs) > EQUAL else 0.0)
    low, high = bootstrap_interval(np.array(pairs), mean, RESAMPLES, seed)
    return {
        "against_greedy": {
            "prompts": len(pairs),
            "higher": sum(pair > 0 for pair in pairs),
            "lower": sum(pair < 0 for pair in pairs),
            "difference": {"value": statistics.fmean(pairs), "low": low, "high": high},
        }
    }


def quality(result: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Metrics of one method over all prompts; log-probabilities in nats, tokens with <eos> if one ended a text."""
    from tinylm.evaluate.bleu_metric import Bleu

    texts = [row["text"] for row in rows]
    tokens = sum(len(ids) for ids, _ in result["texts"])
    bleu = Bleu().compute(
        predictions=texts, references=[row["reference"] for row in rows], tokenize="none"
    )
    log_prob = sum(row["log_prob"] for row in rows)
    return {
        "bleu4": bleu["bleu4"],
        "log_prob_per_token": log_prob / max(tokens, 1),
        "log_prob": log_prob,
        "score": sum(row["score"] for row in rows),
        "tokens": tokens,
        "distinct2": distinct_n(texts, 2),
        "repeated_4grams": repeated_share(texts, 4),
    }


def summary(
    measured: Sequence[dict[str, Any]],
    texts: Mapping[str, Sequence[dict[str, Any]]],
    task: Task,
    tokenizer: Tokenizer,
) -> dict[str, dict[str, Any]]:
    """Metrics of each method by its name. texts: of each, as `table` gives them."""
    greedy = next((result for result in measured if result["setting"] == "greedy"), None)
    methods = {}
    for result in measured:
        name = result["setting"]
        metrics = conditions(task.settings)
        metrics |= quality(result, texts[name])
        metrics |= judge(result, task, tokenizer)
        if greedy is not None:
            metrics |= against_greedy(result, greedy, task.decode.seed)
        methods[name] = metrics
    return methods


def speeds(
    measured: Sequence[dict[str, Any]], settings: BeamBenchSettings
) -> tuple[dict[str, dict[str, Any]], list[dict[str, str]]]:
    """(times of each method by its name, what was not measured)."""
    rows, missing = measure.records(measured, ("setting",), measure.with_spread(TIMES))
    return {row.pop("setting"): conditions(settings) | row for row in rows}, missing


def plotted_speeds(
    times: Mapping[str, Mapping[str, Any]], tasks: Sequence[Task]
) -> list[tuple[str, int, str, float]]:
    """plots/beam_bench.csv: (method, width, series, tokens per second)."""
    widths = {task.name: task.width or 1 for task in tasks}
    rows = []
    for metric, series in PLOTTED.items():
        for name, row in times.items():
            rows.append((name, widths[name], series, row[metric]))
    return rows

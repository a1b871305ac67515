"""Beam search compared with greedy decoding and sampling: quality and speed."""

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.base.seeding import seed_everything
from tinylm.bench import measure
from tinylm.bench.measure import BeamBenchSettings
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Step
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.continuations import without_repeats
from tinylm.evaluate.diversity import distinct_n, repeated_share
from tinylm.evaluate.plausibility import possible
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import load_model
from tinylm.run.interval import Interval
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.prompts import Prompt, choose_prompts
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

PLOTTED = {"tokens_per_s": "one prompt", "batch_tokens_per_s": "all prompts at once"}
JUDGED = 50  # further prompts whose continuations the story generator judges


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What a process needs for one method: beam search, or token by token if `width` is None.

    The model is the one trained in the working directory. judged: further prompts, not timed: could
    the generator have written their continuations? Empty if it did not write the stories.
    """

    name: str
    width: int | None
    decode: DecodeSettings
    slide: str
    settings: BeamBenchSettings
    runtime: RuntimeSettings
    prompts: list[list[int]]
    judged: list[list[int]]
    only_times: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The method's name, for its row of results."""
        return {"setting": self.name}


def make_tasks(settings: BeamBenchSettings, decode: DecodeSettings, **shared: Any) -> list[Task]:
    """sampling (section decode), greedy (temperature 0, no penalty) and each beam; `shared`: Task's other fields."""
    shared["settings"] = settings
    tasks = [
        Task(name="sampling", width=None, decode=decode, **shared),
        Task(name="greedy", width=None, decode=decode.greedy(), **shared),
    ]
    for width in settings.widths:
        tasks.append(Task(name=f"beam {width}", width=width, decode=decode, **shared))
    return tasks


def continue_prompts(
    task: Task,
    step: Step,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    *,
    stop_at_eos: bool,
) -> list[tuple[list[int], float]]:
    """Each prompt's new tokens and their log-probability in nats under the model's own distribution."""
    decoder = Decoder(
        model=step.model,
        eos_id=tokenizer.eos_id,
        banned=banned_ids(tokenizer),
        slide=task.slide,
        use_cache=task.settings.cache,
        step=step,
    )
    new_tokens = task.settings.new_tokens
    if task.width is None:
        rows = generate(
            decoder,
            prompts,
            task.decode,
            max_new_tokens=new_tokens,
            stop_at_eos=stop_at_eos,
            with_log_probs=True,
        )
        return [(row.ids, sum(row.log_probs)) for row in rows]
    beams = BeamSettings(width=task.width, length_penalty=task.settings.length_penalty)
    found = beam_search(decoder, prompts, beams, max_new_tokens=new_tokens, stop_at_eos=stop_at_eos)
    return [(best.ids, best.log_prob) for best, *_ in found]


def measure_task(task: Task) -> dict[str, Any]:
    """One method: its texts, which may stop at <eos>, and its speed under the settings' stop rule.

    Speed counts the tokens of the returned continuations, one prompt at a time (medians) and all at
    once.
    """
    device = pick_device(task.runtime.device)
    seed_everything(task.decode.seed, task.runtime.threads)
    model, _ = load_model(paths.MODELS, device)
    step = decoding_step(model)
    tokenizer = open_tokenizer(paths.TOKENIZER)

    def timed(prompts: list[list[int]]) -> tuple[int, float]:
        measure.synchronize(device)
        begun = time.perf_counter()
        stop = task.settings.stop_at_eos
        texts = continue_prompts(task, step, tokenizer, prompts, stop_at_eos=stop)
        measure.synchronize(device)
        return sum(len(ids) for ids, _ in texts), time.perf_counter() - begun

    timed(task.prompts[:1])  # warm-up
    alone = [timed([prompt]) for prompt in task.prompts]
    tokens, together = timed(task.prompts)
    times = {
        "tokens_per_s": statistics.median(count / seconds for count, seconds in alone),
        "s_per_prompt": statistics.median(seconds for _, seconds in alone),
        "batch_tokens_per_s": tokens / together,
    }
    if task.only_times:
        return times
    judged = continue_prompts(task, step, tokenizer, task.judged, stop_at_eos=True)
    texts = continue_prompts(task, step, tokenizer, task.prompts, stop_at_eos=True)
    return {"texts": texts, "judged": judged, "step": step.name, **times}


BENCH = measure.Bench(
    measure_task,
    conditions=("setting",),
    times=("tokens_per_s", "s_per_prompt", "batch_tokens_per_s"),
)


def story_prompts(
    store: TokenStore, settings: BeamBenchSettings, sos_id: int | None
) -> list[Prompt]:
    """Evaluation stories spread over the split, each with its own next `new_tokens` tokens as the reference.

    No two have the same prompt and reference. Raises InputError if no story is long enough; if there are fewer than
    asked for, all are taken. sos_id: as for `choose_prompts`.
    """
    prompts = choose_prompts(
        store, settings.prompts, measure.PROMPT_TOKENS, settings.new_tokens, sos_id=sos_id
    )
    if not prompts:
        raise InputError(
            "stage beam_bench: expected a whole evaluation story of more than "
            f"{measure.PROMPT_TOKENS} tokens, got none; raise data.evaluation_stories"
        )
    return without_repeats(prompts)


def judged_prompts(
    store: TokenStore, settings: BeamBenchSettings, sos_id: int | None, source: str
) -> list[Prompt]:
    """Different prompts for `Task.judged`; none if another source than the generator wrote the stories."""
    if source != "storybook":
        return []
    prompts = story_prompts(store, dataclasses.replace(settings, prompts=JUDGED), sos_id)
    return list({tuple(prompt.ids): prompt for prompt in prompts}.values())


class Text(NamedTuple):
    """One method's text for one prompt, a row of outputs.csv. score: what beam search ranks by."""

    prompt: str
    reference: str
    method: str
    text: str
    log_prob: float
    score: float


def texts_of(
    result: dict[str, Any], prompts: Sequence[Prompt], tokenizer: Tokenizer, alpha: float
) -> list[Text]:
    """The texts of one method, one per prompt; alpha: the exponent of the score's length penalty."""
    texts = []
    for prompt, (ids, log_prob) in zip(prompts, result["texts"], strict=True):
        start = tokenizer.decode(prompt.ids)
        reference = tokenizer.decode(prompt.reference)
        score = log_prob / max(len(ids), 1) ** alpha
        text = tokenizer.decode(ids)
        texts.append(Text(start, reference, result["setting"], text, log_prob, score))
    return texts


def judge(result: dict[str, Any], task: Task, tokenizer: Tokenizer) -> Interval | None:
    """The share of a method's continuations of the `judged` prompts that the generator could write."""
    texts = []
    for prompt, (ids, _) in zip(task.judged, result["judged"], strict=True):
        is_ended = bool(ids) and ids[-1] == tokenizer.eos_id
        texts.append((tokenizer.decode(prompt), tokenizer.decode(ids), is_ended))
    return possible(texts)


def quality(result: dict[str, Any], rows: Sequence[Text]) -> dict[str, Any]:
    """Metrics of one method over all prompts; an <eos> that ended a text is one of its tokens."""
    from tinylm.evaluate.bleu import Bleu  # takes seconds to import

    texts = [row.text for row in rows]
    bleu = Bleu().compute(predictions=texts, references=[row.reference for row in rows])
    tokens = sum(len(ids) for ids, _ in result["texts"])
    log_prob = sum(log_prob for _, log_prob in result["texts"])
    return {
        "bleu4": bleu["bleu4"],
        "log_prob_per_token": log_prob / max(tokens, 1),
        "distinct2": distinct_n(texts, 2),
        "repeated_4grams": repeated_share(texts, 4),
    }


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

"""Gradient accumulation: the training runs of the sweep and their summary."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence

import torch

from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.bench import training, trials
from tinylm.bench.settings import PROMPT_TOKENS, AccumSettings
from tinylm.bench.training import (
    TrainingMeasurement,
    TrainingTask,
    new_training_run,
    short_run,
    train_store,
)
from tinylm.bench.trials import Failure, Trials
from tinylm.decoding.texts import banned_ids
from tinylm.model.settings import ModelSettings
from tinylm.run.benches import (
    Accumulated,
    AccumulatedRun,
    AccumulationSpeed,
    AccumulationTimes,
    NotMeasured,
)
from tinylm.train.preparation import training_batches
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import accumulate_gradients
from tinylm.vocab.batches import Batch, TrainBatches
from tinylm.vocab.prompts import Prompt, choose_prompts
from tinylm.vocab.rows import check_rows
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

CONTEXT = 32  # tokens of a row at most, where rows are single stories
HELD_OUT_ROWS = 96  # scored in each validation, rounded up to whole mini-batches
PROMPTS = 50  # evaluation stories that each trained model continues, for BLEU
NEW_TOKENS = 25  # of a continuation: with the prompt it fits the shortened context


@dataclasses.dataclass(frozen=True, kw_only=True)
class AccumResult:
    """Results of the sweep. runs, bleu: by the number of mini-batches per update.

    row_tokens: the most tokens in a row. gradient_difference: see the function of that name.
    """

    runs: Mapping[int, TrainingMeasurement]
    not_measured: Sequence[NotMeasured]
    row_tokens: int
    bleu: Mapping[int, float | None]
    gradient_difference: float | Failure


def shortened(model: ModelSettings, layout: str) -> ModelSettings:
    """The model for rows of at most `CONTEXT` tokens; packed windows keep the model's context.

    Short rows of stories make updates cheap, so that the budget holds more of them.
    """
    if layout != "stories":
        return model
    return dataclasses.replace(model, context=min(CONTEXT, model.context))


def sweep_batches(
    sweep: AccumSettings, model: ModelSettings, train: TrainSettings, pad_id: int
) -> TrainBatches:
    """The mini-batches of every setting. Raises InputError if the stories have no row."""
    settings = short_run(train, batch_size=sweep.batch_size)
    rows = shortened(model, train.layout)
    return training_batches(rows, settings, train_store(sweep.stories), pad_id)


def check_sweep(
    sweep: AccumSettings, model: ModelSettings, train: TrainSettings, pad_id: int
) -> None:
    """Raise InputError unless sweep.tokens allows one update of the largest setting."""
    largest = max(sweep.settings)
    rows = shortened(model, train.layout)
    check_rows(train_store(sweep.stories), train.layout, rows.context)
    if sweep.tokens >= largest * sweep.batch_size * rows.context:
        return  # also enough for full rows, so the batches need not be made
    needed = sweep_batches(sweep, model, train, pad_id).tokens_of(largest)
    if sweep.tokens < needed:
        raise InputError(
            f"{PARAMS_FILE}: accum_sweep.tokens: expected at least {needed}, one update of "
            f"{largest} mini-batches, got {sweep.tokens}"
        )


def plan_updates(batches: TrainBatches, sweep: AccumSettings) -> int:
    """How many updates of the largest setting fit into sweep.tokens.

    Every setting trains on the mini-batches of these. All settings divide the largest, so all end
    at the same token.
    """
    largest = max(sweep.settings)
    updates = 0
    while batches.tokens_of((updates + 1) * largest) <= sweep.tokens:
        updates += 1
    return updates


def story_prompts(tokenizer: Tokenizer) -> list[Prompt]:
    """The first words of evaluation stories, each with the story's own next words."""
    store = TokenStore(paths.TOKENS, "evaluation")
    return choose_prompts(store, PROMPTS, PROMPT_TOKENS, NEW_TOKENS, sos_id=tokenizer.sos_id)


def make_tasks(
    sweep: AccumSettings,
    model: ModelSettings,
    train: TrainSettings,
    tokenizer: Tokenizer,
    runtime: RuntimeSettings,
) -> list[TrainingTask]:
    """One training run for each setting, all validated after the same number of updates.

    Raises InputError if sweep.tokens is too small for one update.
    """
    pad_id = tokenizer.pad_id
    check_sweep(sweep, model, train, pad_id)
    prompts = [prompt.ids for prompt in story_prompts(tokenizer)]
    updates = plan_updates(sweep_batches(sweep, model, train, pad_id), sweep)
    model = shortened(model, train.layout)
    tasks = []
    for number in sorted(sweep.settings):
        settings = short_run(
            train, accumulation=number, batch_size=sweep.batch_size, validate_every=updates
        )
        task = TrainingTask(
            name=f"accumulation {number}",
            mini_batches=updates * max(sweep.settings),
            held_out_rows=HELD_OUT_ROWS,
            stories=sweep.stories,
            model=model,
            train=settings,
            pad_id=pad_id,
            runtime=runtime,
            prompts=prompts,
            new_tokens=NEW_TOKENS,
            eos_id=tokenizer.eos_id,
            banned=banned_ids(tokenizer),
        )
        tasks.append(task)
    return tasks


def run_bench(tasks: Sequence[TrainingTask], tokenizer: Tokenizer) -> AccumResult:
    """Train with every setting and compare the losses. Raises CommandFailed if no run ended."""
    runs, not_measured = trials.split_failures(tasks, train_all(tasks))
    return AccumResult(
        runs={run.task.train.accumulation: run.first for run in runs},
        not_measured=not_measured,
        row_tokens=tasks[0].model.context,
        bleu={run.task.train.accumulation: mean_bleu(run.first, tokenizer) for run in runs},
        gradient_difference=trials.in_own_process(gradient_difference, tasks[0]),
    )


def train_all(
    tasks: Sequence[TrainingTask],
) -> Iterator[Trials[TrainingTask, TrainingMeasurement] | Failure]:
    """The only trial of each setting, or its failure. Prints a line as each one ends.

    A step of a few rows gains little from a second thread. So on a CPU each run has one thread, and
    as many go in parallel as there are threads. On a CUDA card they run one after another. Raises
    CommandFailed if a run fails for any reason other than memory.
    """
    runtime = tasks[0].runtime
    together = 1
    if pick_device(runtime.device).type == "cpu":
        together = runtime.threads
        one_thread = dataclasses.replace(runtime, threads=1)
        tasks = [dataclasses.replace(task, runtime=one_thread) for task in tasks]
    answers = trials.in_own_processes(training.measure, tasks, together)
    for task, answer in zip(tasks, answers, strict=True):
        if isinstance(answer, Failure):
            if answer.reason != trials.OOM:
                raise CommandFailed(f"{task.name}: {answer}")
            print(f"{task.name}: not measured: {answer}", file=sys.stderr)
            yield answer
        else:
            loss = answer.held_out[-1][2]
            print(
                f"{task.name}: held-out loss {loss:.4f} after {answer.updates} updates", flush=True
            )
            yield Trials(task, answer, [answer.times])


def gradient_difference(task: TrainingTask) -> float:
    """How far the gradient of two mini-batches is from that of one batch with their rows.

    The largest difference of two entries, relative to the largest entry. It is in fp32 and without
    dropout, which would draw other numbers.
    """
    run = new_training_run(task)
    model = run.model.eval()
    pair = [run.batches.batch(0), run.batches.batch(1)]
    gradients = []
    for batches in (pair, [_joined(pair)]):
        model.zero_grad(set_to_none=True)
        accumulate_gradients(model, batches, "fp32")
        parts = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients.append(torch.cat(parts))
    accumulated, whole = gradients
    largest = (accumulated - whole).abs().max() / whole.abs().max()
    return largest.item()


def _joined(batches: Sequence[Batch]) -> Batch:
    """One batch with the rows of all, padded to the longest row."""
    width = max(batch.inputs.shape[1] for batch in batches)
    padded = [batch.padded(len(batch.inputs), width) for batch in batches]
    inputs = torch.cat([batch.inputs for batch in padded])
    targets = torch.cat([batch.targets for batch in padded])
    return Batch(inputs, targets, sum(batch.tokens for batch in batches))


def mean_bleu(run: TrainingMeasurement, tokenizer: Tokenizer) -> float | None:
    """The mean BLEU of the run's continuations; None if no evaluation story is long enough."""
    from tinylm.text.bleu import Bleu  # takes seconds to import

    references = [tokenizer.decode(prompt.reference) for prompt in story_prompts(tokenizer)]
    texts = [tokenizer.decode(ids) for ids in run.texts]
    scores = Bleu().compute(predictions=texts, references=references)["sentence_bleu"]
    return float(scores.mean()) if texts else None


def plotted_losses(result: AccumResult) -> dict[str, list[tuple[int, str, float]]]:
    """Train loss of all runs: (x, series, nats per token), with x a micro-step, update or token."""
    axes: dict[str, list[tuple[int, str, float]]] = {"micro_step": [], "update": [], "tokens": []}
    for accumulation, run in result.runs.items():
        series = f"accumulation {accumulation}"
        for update, tokens, nats in run.curve:
            axes["micro_step"].append((update * accumulation, series, nats))
            axes["update"].append((update, series, nats))
            axes["tokens"].append((tokens, series, nats))
    return axes


def results_of(result: AccumResult) -> Accumulated:
    """The results that stage accum_sweep writes: losses at equal tokens and at equal updates.

    equal_updates: the number of updates of the setting that makes the fewest.
    """
    fewest = min(run.updates for run in result.runs.values())
    settings = {}
    for accumulation, run in result.runs.items():
        losses = {update: nats for update, _, nats in run.held_out}
        settings[accumulation] = AccumulatedRun(
            updates=run.updates,
            held_out_loss_at_equal_tokens=run.held_out[-1][2],
            held_out_loss_at_equal_updates=losses[fewest],
            bleu=result.bleu.get(accumulation),
        )
    any_run = next(iter(result.runs.values()))
    difference = result.gradient_difference
    return Accumulated(
        budget_tokens=any_run.curve[-1][1],  # all end at the same token
        equal_updates=fewest,
        settings=settings,
        row_tokens=result.row_tokens,
        gradient_difference=None if isinstance(difference, Failure) else difference,
    )


def times_of(result: AccumResult) -> AccumulationTimes:
    """The times that stage accum_sweep writes."""
    costs = {}
    for accumulation, run in result.runs.items():
        costs[accumulation] = AccumulationSpeed(
            **dataclasses.asdict(run.times), peak_mib=run.peak_mib
        )
    return AccumulationTimes(settings=costs, not_measured=list(result.not_measured))


def metrics_of(
    times: AccumulationTimes, sweep: AccumSettings
) -> dict[str, dict[str, float | None]]:
    """A row of metrics for each setting, with None where nothing was measured."""
    metrics: dict[str, dict[str, float | None]] = {}
    for accumulation in sweep.settings:
        cost = times.settings.get(accumulation)
        metrics[f"accum/{accumulation}"] = {
            "epoch_s": cost.epoch_s if cost else None,
            "peak_mib": cost.peak_mib if cost else None,
        }
    return metrics

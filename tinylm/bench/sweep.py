"""Summary of the runs of the accumulation sweep; needs no torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from tinylm.bench import measure

TAIL_TOKENS = 0.1  # last share of the budget, over which the train loss is averaged
MEASURED = (
    "tokens/s and the time of an update are the median of interleaved trials (lowest to highest), each in a process of "
    "its own and over the same mini-batches, without validation; the time of an epoch is extrapolated: its tokens over "
    "tokens/s; peak memory is the allocator's in one update, above weights, gradients and optimizer state, with all "
    "its mini-batches as wide as the widest of the epoch"
)


def held_out_at(run: Mapping[str, Any], update: int) -> float:
    """Held-out nats per token that a run measured after `update`."""
    return next(nats for _, at, _, nats in run["held_out"] if at == update)


def tail_loss(run: Mapping[str, Any]) -> float:
    """Mean train loss over the last tenth of the tokens, so that runs with few and many updates can be compared."""
    end = run["curve"][-1][2]
    tail = [nats for _, _, tokens, nats in run["curve"] if tokens > end * (1 - TAIL_TOKENS)]
    return sum(tail) / len(tail)


def merge(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """metrics/accum_sweep.json from the runs by accumulation: losses at equal tokens and at equal updates."""
    update = runs[max(runs)]["compared_update"]
    table = {
        number: {
            "updates": run["updates"],
            "micro_steps": run["micro_steps"],
            "tokens": run["tokens"],
            "held_out_loss_at_equal_tokens": run["held_out"][-1][3],
            "held_out_loss_at_equal_updates": held_out_at(run, update),
            "tokens_at_equal_updates": next(
                tokens for _, at, tokens, _ in run["held_out"] if at == update
            ),
            "train_loss_last_tenth": tail_loss(run),
        }
        for number, run in runs.items()
    }
    first = runs[min(runs)]
    return {
        "batch_size": first["batch_size"],
        "budget_tokens": first["budget_tokens"],
        "equal_updates": update,
        "settings": table,
        "learning_rate": (
            "the same peak rate for every setting; warm-up and decay follow the share of the token budget that is "
            "used, so that every setting has the same rate at the same tokens"
        ),
        "answers": _answers(table, first["batch_size"], update),
    }


def _answers(table: Mapping[int, Mapping[str, Any]], batch_size: int, update: int) -> list[str]:
    def list_of(figure: str) -> str:
        return ", ".join(f"{row[figure]:.3f} with {number}" for number, row in table.items())

    by_tokens = min(table, key=lambda number: table[number]["held_out_loss_at_equal_tokens"])
    by_updates = min(table, key=lambda number: table[number]["held_out_loss_at_equal_updates"])
    tokens = table[by_tokens]["tokens"]
    return [
        f"What does a fixed amount of computing buy? Compare after equally many mini-batches, that is equal tokens "
        f"({tokens:,}): held-out loss {list_of('held_out_loss_at_equal_tokens')} accumulation steps; lowest "
        f"with {by_tokens}. More accumulation means fewer updates for the same tokens.",
        f"What does a larger batch buy an update? Compare at equal updates (update {update} of each): held-out loss "
        f"{list_of('held_out_loss_at_equal_updates')} accumulation steps; lowest with {by_updates}. An update with N "
        f"accumulation steps costs N times the tokens, and at equal updates the learning rates differ, since they "
        f"follow the tokens.",
        f"Does accumulation cost memory? One mini-batch of {batch_size} {'row' if batch_size == 1 else 'rows'} is in "
        f"memory at a time. From the second on its gradients stand for a moment beside the sum that they are added to; "
        f"further steps add nothing. The peaks stand in metrics/accum_sweep_time.json.",
    ]


def curves(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, list[tuple[int, str, float]]]:
    """Train loss of all runs as (x, series, nats per token) for each of micro_step, update and tokens."""
    axes = ("micro_step", "update", "tokens")
    return {
        axis: [
            (point[column], f"accumulation {n}", point[3])
            for n, run in runs.items()
            for point in run["curve"]
        ]
        for column, axis in enumerate(axes)
    }


def costs(
    memory: Mapping[int, Mapping[str, Any]], timed: Sequence[dict[str, Any]], times: Sequence[str]
) -> tuple[dict[int, dict[str, Any]], list[dict[str, str]]]:
    """(time and memory of each run, what was not measured) for metrics/accum_sweep_time.json.

    memory: of each run; timed: its trials, as `measure.run_trials` gives them.
    """
    rows, missing = measure.records(timed, ("setting", "accumulation"), measure.with_spread(times))
    table = {row.pop("accumulation"): row for row in rows}
    for number, found in memory.items():
        for name in ("peak_mib", "process_mib"):
            if found.get(name) is None:
                missing.append(
                    {"setting": f"accumulation {number}", "figure": name, "reason": "not recorded"}
                )
            else:
                table.setdefault(number, {})[name] = found[name]
    return {
        number: {k: v for k, v in row.items() if k != "setting"} for number, row in table.items()
    }, missing

"""Summary of the runs of the accumulation sweep; needs no torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from tinylm.bench import measure

TAIL_TOKENS = 0.1  # last share of the budget, over which the train loss is averaged


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
    }


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
    for number, times_of_run in memory.items():
        for name in ("peak_mib", "process_mib"):
            if times_of_run.get(name) is None:
                missing.append(
                    {"setting": f"accumulation {number}", "figure": name, "reason": "not recorded"}
                )
            else:
                table.setdefault(number, {})[name] = times_of_run[name]
    return {
        number: {k: v for k, v in row.items() if k != "setting"} for number, row in table.items()
    }, missing

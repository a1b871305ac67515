"""The values for each section of the report, whose text is in the template of the same name.

A section named NAME is NAME.md.j2, the function NAME here, and its place in `document.SECTIONS`.
Every template also gets `template_values`.
"""

from typing import Any

from tinylm.report.effects import widest_beam
from tinylm.report.sources import STAGES, STORY_WORDS, ReportData

SAMPLES = 8
SHOWN = 2  # samples shown on the page; the rest are in the appendix


def template_values(run: ReportData) -> dict[str, Any]:
    """What every template can use: the run, its parameters, results and times."""
    return {
        "run": run,
        "params": run.params,
        **{stage: run.files.get(stage, {}) for stage in STAGES},
        "times": {stage: run.files.get(f"{stage}_time", {}) for stage in STAGES},
    }


def summary(run: ReportData) -> dict[str, Any]:
    """The first samples, warnings, and what the benches could not measure."""
    warnings = run.value("evaluate.warnings") or []
    not_measured = []
    for bench in ("beam_bench", "kv_bench", "accum_sweep", "ckpt_bench"):
        for row in run.value(f"{bench}_time.not_measured") or []:
            not_measured.append(f"{row['setting']}, {row['figure']}: {row['reason']}")
    samples = run.rows("samples")[:SHOWN]
    return {"not_measured": not_measured, "samples": samples, "warnings": warnings}


def truth(run: ReportData) -> dict[str, Any]:
    """The kinds of words, the one that is farthest from the generator first."""
    kinds = run.value("evaluate.truth.kinds") or {}
    return {"kinds": sorted(kinds.items(), key=lambda pair: -pair[1]["kl"]["value"])}


def method(run: ReportData) -> dict[str, Any]:
    """Nothing but what the stages left."""
    return {}


def training(run: ReportData) -> dict[str, Any]:
    """The difference between two seeds, if there are several."""
    return {"between_seeds": run.value("seeds.perplexity.difference")}


def generation(run: ReportData) -> dict[str, Any]:
    """The samples with comments, and how many samples have no error."""
    return {
        "commented": commented_samples(run)[:SHOWN],
        "sense": run.value("evaluate.sense"),
        "own_texts": run.rows("own_texts"),
    }


def attention(run: ReportData) -> dict[str, Any]:
    """The heads, and the roles that some head has, best fit first."""
    roles = run.roles()
    return {
        "heads": run.heads(),
        "roles_measured": roles["role"].nunique(),
        "roles_claimed": list(dict.fromkeys(roles.loc[roles["claimed"].eq(True), "role"])),
    }


def beams(run: ReportData) -> dict[str, Any]:
    """The texts of the first prompt, without beam 1, which is greedy decoding."""
    rows = run.rows("beams")
    texts: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["prompt"] == rows[0]["prompt"] and row["method"] != "beam 1":
            texts.setdefault(row["method"], row)
    return {"widest": widest_beam(run), "beam_texts": list(texts.values())}


def cache(run: ReportData) -> dict[str, Any]:
    """The longest text with and without the cache."""
    with_cache, without = with_and_without(
        run.value("kv_bench_time.settings"), "new_tokens", "cache"
    )
    return {"with_cache": with_cache, "without": without}


def accumulation(run: ReportData) -> dict[str, Any]:
    """The settings with the fewest and the most mini-batches per update."""
    settings = list(run.value("accum_sweep.settings") or {})
    return {"fewest_and_most": [*settings[:1], *settings[1:][-1:]]}


def checkpointing(run: ReportData) -> dict[str, Any]:
    """The runs with and without checkpointing; empty if not measured."""
    rows = {row["recompute"]: row for row in run.value("ckpt_bench_time.settings") or []}
    return {"recomputed": rows.get(True, {}), "stored": rows.get(False, {})}


def appendix(run: ReportData) -> dict[str, Any]:
    """Further samples, what was expected at each word of a story, and the stages."""
    return {
        "commented": commented_samples(run)[SHOWN:],
        "explained": run.rows("truth_story")[:STORY_WORDS],
        "stages": STAGES,
    }


def with_and_without(
    rows: list[dict[str, Any]] | None, size: str, switch: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The measurements at the largest size with the switch on and off; empty if not measured."""
    largest = max((row[size] for row in rows or []), default=None)
    by_switch = {row[switch]: row for row in rows or [] if row[size] == largest}
    return by_switch.get(True, {}), by_switch.get(False, {})


def commented_samples(run: ReportData) -> list[tuple[dict[str, Any], str]]:
    """The first samples, each with its first impossible word; "" if that was not measured."""
    samples = run.rows("samples")
    errors = {error.get("sample"): error for error in run.rows("sense")}
    sense = run.value("evaluate.sense") or {}
    kinds = sense.get("kinds") or {}
    is_judged = sense.get("texts") == len(samples) and len(errors) == sum(kinds.values())
    commented = []
    for index, row in enumerate(samples[:SAMPLES]):
        commented.append((row, _first_error(errors.get(index)) if is_judged else ""))
    return commented


def _first_error(error: dict[str, Any] | None) -> str:
    """The first impossible word of a text. error: its row of `sense`."""
    if error is None:
        return "No impossible word."
    word = "the end" if error["word"] == "<eos>" else f"“{error['word']}”"
    return f"The first impossible word is {word}; possible: {error['instead']}."

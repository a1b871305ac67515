"""The values that the templates of the report name: choices and orders, no metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from tinylm.base.config import parse_yaml
from tinylm.evaluate.head_roles import role_pairs
from tinylm.evaluate.plausibility import read_text
from tinylm.report.render import escape
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, ReportData
from tinylm.report.wording import big, isolated, number
from tinylm.storybook.truth import END, MEANING

ASSIGNMENT = Path(__file__).with_name("assignment.yaml")
TILES = (  # the numbers that matter most; those that are not known are left out
    ("perplexity of this model", "evaluate.perplexity"),
    ("perplexity of n-grams (Kneser-Ney)", "evaluate.baselines.kneser_ney.perplexity"),
    ("perplexity of the generator", "evaluate.baselines.floor.perplexity"),
    ("bits per byte of the raw text", "evaluate.raw_bits_per_byte"),
)
SAMPLES = 8
SHOWN_WORDS = 60  # of the sample at the top
HEAD_WORDS = 16  # of the sentence whose maps of two heads are shown
ROLES = {  # what a head with this role attends to, and what its score is compared with
    "previous token": ("the token before", "attention spread evenly"),
    "first token": ("the first token", "attention spread evenly"),
    "same token": ("earlier occurrences of the same token", "the distance alone"),
    "induction": ("what followed the same token earlier", "the distance alone"),
}


def template_values(run: ReportData) -> dict[str, Any]:
    """What every template can use; a file that is missing gives empty values."""
    times = {stage: run.files.get(f"{stage}_time", {}) for stage in STAGES}
    with_cache, without = with_and_without(run)
    by_recompute = {row["recompute"]: row for row in times["ckpt_bench"].get("settings", [])}
    accumulations = list(run.value("accum_sweep.settings") or {})
    beams = _beams(run)
    widths = [int(name.split()[1]) for name in beams if name.startswith("beam ")]
    roles = run.roles()
    kinds = run.value("evaluate.truth.kinds") or {}
    first_errors = run.value("evaluate.sense.kinds") or {}
    return {
        "run": run,
        "params": run.params,
        **{stage: run.files.get(stage, {}) for stage in STAGES},
        "times": times,
        "word": run.token(),
        "corpus": corpus_of(run),
        "meaning": MEANING,
        "warnings": run.value("evaluate.warnings") or [],
        "not_measured": _not_measured(times),
        "kinds": sorted(kinds.items(), key=lambda pair: -(pair[1]["kl"]["value"] or 0)),
        "samples": [_marked(run, row) for row in run.rows("samples")[:SAMPLES]],
        "first_errors": sorted(first_errors.items(), key=lambda pair: -pair[1]),
        "shown_heads": shown_heads(run),
        "roles_measured": roles["role"].nunique(),
        "roles_claimed": list(dict.fromkeys(roles.loc[roles["claimed"].eq(True), "role"])),
        "beams": beams,
        "widest": f"beam {max(widths)}" if widths else "",
        "beam_texts": _beam_texts(run),
        "greedy_is_beam_1": _greedy_is_beam_1(run),
        "with_cache": with_cache,
        "without": without,
        "fewest": accumulations[0] if accumulations else None,
        "most": accumulations[-1] if accumulations else None,
        "recomputed": by_recompute.get(True, {}),
        "stored": by_recompute.get(False, {}),
        "bottlenecks": _bottlenecks(run),
    }


def report_values(run: ReportData, settings: ReportSettings, lab: bool) -> dict[str, Any]:
    """What the report itself uses in addition. lab: whether it links to lab.html."""
    differing, as_asked = _assignment(run)
    return {
        "settings": settings,
        "author": isolated(settings.author or ""),
        "lab": lab,
        "title": title_of(run, settings),
        "tiles": [(name, number(run.value(place))) for name, place in TILES],
        "differing": differing,
        "as_asked": as_asked,
    }


def corpus_of(run: ReportData) -> str:
    """The name of the text that the model learnt from."""
    source = run.param("data", "source")
    if source == "storybook":
        return "generated stories"
    key = "path" if source == "local" else "hub"
    path = str(run.param("data", key) or "text").partition("@")[0]
    name = path.rstrip("/").rpartition("/")[2]
    return "TinyStories" if name.lower() == "tinystories" else name


def title_of(run: ReportData, settings: ReportSettings) -> str:
    """The title of the settings, otherwise one that says which model this is."""
    if settings.title:
        return settings.title
    parameters = run.value("train.parameters")
    size = f" with {big(parameters)} parameters" if parameters else ""
    return f"A language model{size}, trained on {corpus_of(run)}"


def _assignment(run: ReportData) -> tuple[list[tuple[str, ...]], list[str]]:
    """(part, asked, done, why) of what differs from the assignment, and the parts that do not."""
    chosen = "chosen in params.yaml"
    is_storybook = run.param("data", "source") == "storybook"
    why = "the true probabilities are known" if is_storybook else chosen
    differing: list[tuple[str, ...]] = [("text", "TinyStories", corpus_of(run), why)]
    as_asked = []
    if corpus_of(run) == "TinyStories":
        as_asked.append(differing.pop()[0])
    for part, row in parse_yaml(ASSIGNMENT.read_text("utf-8"), ASSIGNMENT.name).items():
        done = run.param(*row["key"].split("."))
        if done == row["asked"]:
            as_asked.append(part)
        else:
            names = row.get("names", {})
            asked_and_done = [str(names.get(str(value), value)) for value in (row["asked"], done)]
            differing.append((part, *asked_and_done, row.get("why", {}).get(str(done), chosen)))
    if run.value("ckpt_bench_time.conditions.device") == "cpu":
        differing.append(("peak memory", "of a GPU", "of the CPU's allocator", "no GPU was used"))
    return differing, as_asked


def _not_measured(times: dict[str, Any]) -> list[str]:
    """What the benches could not measure, and why."""
    lines = []
    for stage in times.values():
        for row in stage.get("not_measured") or []:
            lines.append(f"{row['setting']}, {row['figure']}: {row['reason']}")
        if reason := (stage.get("profile") or {}).get("error"):
            lines.append(f"profile by operation: {reason}")
    return lines


def _marked(run: ReportData, row: dict[str, Any]) -> dict[str, Any]:
    """A sample with its `text`, the `start` of it, whether a word `is_marked`, and a `comment`.

    The first impossible word is marked. Only the storybook's generator can tell which it is.
    """
    sample = row | {"text": row["continuation"], "is_marked": False, "comment": ""}
    words = row["continuation"].split()
    place = len(words)
    if run.value("evaluate.sense"):
        read, error = read_text(row["prompt"], row["continuation"], row["finished"]) or (0, None)
        sample["comment"] = "No impossible word." if read and not error else ""
        if error:
            shown = "the end" if error.word == END else f"“{error.word}”"
            possible = ", ".join(error.expected)
            sample["comment"] = f"The first impossible word is {shown}; possible words: {possible}."
        if error and error.word != END:
            place = read - 1
            sample |= {"text": _with_mark(words, place), "is_marked": True}
    most = max(SHOWN_WORDS, place + 5 if sample["is_marked"] else 0)
    shown_words = words[:most] + ["…"] * (len(words) > most)
    return sample | {"start": _with_mark(shown_words, place)}


def _with_mark(words: list[str], place: int) -> Markup:
    """The words as Markdown, the one at this place marked."""
    parts = [escape(" ".join(words[:place]))]
    if place < len(words):
        parts += [Markup(f"**{escape(words[place])}**"), escape(" ".join(words[place + 1 :]))]
    return Markup(" ").join(part for part in parts if part)


def shown_heads(run: ReportData) -> list[dict[str, Any]]:
    """At most two heads with different roles over the first words of the first sentence.

    Heads that have a role come first, then those that the loss depends on most. Each has its `map`, and
    the strongest example of its role there: `from` attends to `to` with this `weight`.
    """
    if not run.sentences():
        return []
    words = run.sentences()[0].words[:HEAD_WORDS]
    maps = run.sentences()[0].maps[:, :, : len(words), : len(words)]
    _, ids = np.unique(words, return_inverse=True)
    pairs = role_pairs(ids, np.array([not word.startswith("<") for word in words]))
    heads = sorted(run.heads(), key=lambda head: -(head["loss_increase"] or 0))
    heads.sort(key=lambda head: not head["claimed"])
    chosen: dict[str, dict[str, Any]] = {}
    for head in heads:
        role = head["role"]
        if role in chosen or len(chosen) == 2 or not len(pairs.get(role, ())):
            continue
        weights = maps[head["layer"] - 1, head["head"] - 1]
        query, key = max(pairs[role], key=lambda pair: weights[tuple(pair)])
        example = {"from": words[query], "to": words[key], "weight": weights[query, key]}
        chosen[role] = head | example | {"map": weights, "words": words, "about": ROLES[role]}
    return list(chosen.values())


def with_and_without(run: ReportData) -> tuple[dict[str, Any], dict[str, Any]]:
    """The longest text with and without the cache; empty if not measured."""
    rows = run.value("kv_bench_time.settings") or []
    longest = max((row["new_tokens"] for row in rows), default=None)
    by_cache = {row["cache"]: row for row in rows if row["new_tokens"] == longest}
    return by_cache.get(True, {}), by_cache.get(False, {})


def _beams(run: ReportData) -> dict[str, dict[str, Any]]:
    """The decoding methods but beam 1, which is greedy decoding; each with its mean number of words."""
    texts = run.frame("beams")
    methods = {}
    for name, row in (run.value("beam_bench.methods") or {}).items():
        if name != "beam 1" and len(texts):
            own = texts[texts["method"] == name]
            words = {
                "words": _mean_words(own["text"]),
                "story_words": _mean_words(own["reference"]),
            }
            methods[name] = row | words
    return methods


def _mean_words(texts: pd.Series) -> float:
    return float(texts.str.count(r"\S+").mean())


def _beam_texts(run: ReportData) -> list[dict[str, Any]]:
    """The texts of the first prompt, one for each method but beam 1."""
    rows = run.rows("beams")
    texts: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["prompt"] == rows[0]["prompt"] and row["method"] != "beam 1":
            texts.setdefault(row["method"], row)
    return list(texts.values())


def _greedy_is_beam_1(run: ReportData) -> bool:
    """Whether a beam of width 1 was measured and wrote the texts of greedy decoding."""
    texts: dict[str, list[str]] = {}
    for row in run.rows("beams"):
        texts.setdefault(row["method"], []).append(row["text"])
    return "beam 1" in texts and texts["beam 1"] == texts.get("greedy")


def _bottlenecks(run: ReportData) -> list[tuple[str, float, float | None]]:
    """Each kind of operation with its shares of an update and of a decoding step, the largest first."""
    update = run.value("ckpt_bench_time.profile.shares") or {}
    step = run.value("kv_bench_time.profile.shares") or {}
    rows = [(part, share, step.get(part)) for part, share in update.items()]
    return sorted(rows, key=lambda row: -row[1])

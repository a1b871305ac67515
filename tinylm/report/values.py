"""The values that the templates of the report name: choices and orders, no metrics."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from tinylm.report.assignment import differences, questions
from tinylm.report.render import escape
from tinylm.report.settings import ReportSettings
from tinylm.report.wording import as_number, big, isolated, number
from tinylm.run.benches import CacheTimes, MethodQuality, RecomputeTimes
from tinylm.run.evaluated import GENERATOR, DecodingGrade, WordMeasures
from tinylm.run.finished_run import RESULTS, FinishedRun, Sentence, records
from tinylm.run.interval import MIN_TEXTS
from tinylm.run.role_pairs import NEXT_TOKEN, role_pairs
from tinylm.storybook.check import world_of
from tinylm.storybook.language import END
from tinylm.storybook.truth import Impossible, read_text
from tinylm.storybook.world import World

SAMPLES = 8
SHOWN_WORDS = 60  # of the sample at the top
MAP_ROWS = 12  # of a heat map: the last ones, so that its labels can be read in print
ROLES = {  # what a head with this role attends to, and what its score is compared with
    "previous token": ("the token before", "attention spread evenly"),
    "first token": ("the first token", "attention spread evenly"),
    "same token": ("earlier occurrences of the same token", "the distance alone"),
    "induction": ("what followed the same token earlier", "the distance alone"),
    NEXT_TOKEN: ("earlier occurrences of the token that comes next", "the distance alone"),
}


def template_values(run: FinishedRun) -> dict[str, Any]:
    """The values that every template can use; None or empty where a result is missing."""
    times = run.times
    with_cache, without = times.kv_bench.of_longest() if times.kv_bench else (None, None)
    recomputes = times.ckpt_bench.settings if times.ckpt_bench else []
    by_recompute = {row.recompute: row for row in recomputes}
    accumulations = list(run.accum_sweep.settings) if run.accum_sweep else []
    beams = _beams(run)
    widths = [int(name.split()[1]) for name in beams if name.startswith("beam ")]
    roles = run.roles()
    roles_claimed = list(dict.fromkeys(roles.loc[roles["claimed"].eq(True), "role"]))
    world = world_of_run(run)
    return {
        "run": run,
        "params": run.params,
        **{stage: getattr(run, stage) for stage in RESULTS},
        "times": times,
        "word": run.token(),
        "corpus": corpus_of(run),
        "meaning": world.meaning if world else {},
        "warnings": run.evaluate.warnings if run.evaluate else [],
        "timed": [(stage, getattr(run.times, stage)) for stage in RESULTS],
        "not_measured": _not_measured(run),
        "least_texts": MIN_TEXTS,
        "kinds": _kinds(run),
        "samples": [_marked(run, row, world) for row in run.tables.rows("samples")[:SAMPLES]],
        "saved_after": _saved_after(run),
        "nearest_decoding": nearest_decoding(run),
        "first_errors": _first_errors(run),
        "heads": heads_with_roles(run),
        "shown_heads": shown_heads(run),
        "sentences": readable_sentences(run, run.sentences),
        "own_sentences": readable_sentences(run, run.own_sentences),
        "role_meaning": ROLES,
        "next_token": NEXT_TOKEN,
        "roles_claimed": roles_claimed,
        "roles_missing": [role for role in roles["role"].unique() if role not in roles_claimed],
        "beams": beams,
        "widest": f"beam {max(widths)}" if widths else "",
        "beam_texts": _beam_texts(run),
        "greedy_is_beam_1": _greedy_is_beam_1(run),
        "with_cache": with_cache,
        "without": without,
        "fewest": accumulations[0] if accumulations else None,
        "most": accumulations[-1] if accumulations else None,
        "recomputed": by_recompute.get(True),
        "stored": by_recompute.get(False),
        "bottlenecks": _bottlenecks(run),
    }


def world_of_run(run: FinishedRun) -> World | None:
    """What wrote the stories of a run; None for other text. Raises InputError, see `world_of`."""
    if corpus := run.download:
        return world_of(corpus.source, corpus.path, run.folder, corpus.world)
    return world_of(str(run.param("data", "source")), run.param("data", "path"), run.folder)


def _saved_after(run: FinishedRun) -> int | None:
    """The number of training tokens after which the weights were saved; None if that was at the end."""
    if run.train is None or run.train.saved_tokens == run.train.tokens:
        return None
    return run.train.saved_tokens


def _kinds(run: FinishedRun) -> list[tuple[str, WordMeasures]]:
    """Each kind of word with its measures, the largest divergence first."""
    kinds = (run.evaluate.truth.kinds if run.evaluate else None) or {}
    return sorted(kinds.items(), key=lambda kind: -(kind[1].kl.value or 0))


def nearest_decoding(run: FinishedRun) -> list[tuple[str, DecodingGrade]]:
    """The settings that sample words, each with its grade, nearest to the generator first."""
    grades = (run.evaluate.decoding if run.evaluate else None) or {}
    distances = {}
    for name, grade in grades.items():
        if grade.total_variation is not None and name != GENERATOR:
            distances[name] = grade.total_variation.value or 0
    return [(name, grades[name]) for name in sorted(distances, key=distances.__getitem__)]


def _first_errors(run: FinishedRun) -> list[tuple[str, int]]:
    """The number of samples whose first impossible word is of each kind, the most frequent first."""
    judged = run.evaluate.sense if run.evaluate else None
    kinds = judged.kinds if judged else {}
    found = [(kind, texts) for kind, texts in kinds.items() if texts]
    return sorted(found, key=lambda kind: -kind[1])


def report_values(run: FinishedRun, settings: ReportSettings, lab: bool) -> dict[str, Any]:
    """Further values for the report alone. lab: whether it links to lab.html."""
    corpus = corpus_of(run)
    differing, as_asked = differences(run, corpus)
    return {
        "settings": settings,
        "author": isolated(settings.author or ""),
        "lab": lab,
        "title": title_of(run, settings),
        "tiles": _tiles(run),
        "differing": differing,
        "as_asked": as_asked,
        "questions": questions(run, settings, corpus),
    }


def _tiles(run: FinishedRun) -> list[tuple[str, str]]:
    """The numbers that matter most, by name; a dash for what is not known."""
    evaluated = run.evaluate
    if evaluated is None:
        return []
    floor = evaluated.baselines.floor
    numbers = {
        "perplexity of this model": evaluated.perplexity,
        "perplexity of n-grams (Kneser-Ney)": evaluated.baselines.kneser_ney.perplexity,
        "perplexity of the generator": floor.perplexity if floor else None,
        "bits per byte of the raw text": evaluated.raw_bits_per_byte,
    }
    return [(name, number(value)) for name, value in numbers.items()]


def corpus_of(run: FinishedRun) -> str:
    """The name of the text that the model learnt from; params.yaml tells it only where no result does."""
    if corpus := run.download:
        source, path, hub = corpus.source, corpus.path, corpus.hub_id
    else:
        source, path, hub = (run.param("data", key) for key in ("source", "path", "hub"))
    if source == "storybook":
        return "generated stories"
    name = str((hub if source == "hub" else path) or "text")
    name = name.partition("@")[0] if source == "hub" else name  # without the revision
    name = name.rstrip("/").rpartition("/")[2]
    return "TinyStories" if name.lower() == "tinystories" else name


def title_of(run: FinishedRun, settings: ReportSettings) -> str:
    """The title of the settings, otherwise one that says which model this is."""
    if settings.title:
        return settings.title
    size = f" with {big(run.train.parameters)} parameters" if run.train else ""
    return f"A language model{size}, trained on {corpus_of(run)}"


def _not_measured(run: FinishedRun) -> list[str]:
    """What the benches could not measure, and why."""
    times = run.times
    lines = []
    for bench in (times.beam_bench, times.kv_bench, times.accum_sweep, times.ckpt_bench):
        for row in bench.not_measured if bench else ():
            lines.append(f"{row.setting}, {row.figure}: {row.reason}")
        if isinstance(bench, CacheTimes | RecomputeTimes) and bench.profile.error:
            lines.append(f"profile by operation: {bench.profile.error}")
    return lines


def _marked(run: FinishedRun, row: dict[str, Any], world: World | None) -> dict[str, Any]:
    """A sample with its `text`, the `start` of it, whether a word `is_marked`, and a `comment`.

    The first impossible word is marked, and what follows is grey: it is not judged. Only the generator of
    a world can tell.
    """
    sample = row | {"text": row["continuation"], "is_marked": False, "comment": ""}
    words = row["continuation"].split()
    place = len(words)
    if run.evaluate and run.evaluate.sense and world:
        found = read_text(
            row["prompt"], row["continuation"], row["finished"], world, not run.has_words
        )
        sample["comment"] = _comment_on(found)
        read, error = found or (0, None)
        if error is not None:
            at = _place_of(read, words, world)
            # Not so for the end, and for a word of which the prompt has the beginning and the text nothing.
            if at < len(words) and error.word.endswith(world.normalise(words[at])):
                place = at
                sample |= {"text": _with_mark(words, place), "is_marked": True}
    most = max(SHOWN_WORDS, place + 5 if sample["is_marked"] else 0)
    shown_words = words[:most] + ["…"] * (len(words) > most)
    return sample | {"start": _with_mark(shown_words, place)}


def _comment_on(found: tuple[int, Impossible | None] | None) -> str:
    """Whether the generator could have written a sample, in a sentence; see `read_text`."""
    if found is None:
        return "Not judged: the generator cannot read the prompt."
    read, error = found
    if error is None:
        return "No impossible word." if read else "Not judged: it has no whole word."
    shown = "the end" if error.word == END else f"“{error.word}”"
    possible = ", ".join(error.expected)
    return f"The first impossible word is {shown}; possible words: {possible}."


def _place_of(number: int, words: list[str], world: World) -> int:
    """The place, among words split at white space, that holds the generator's word of this number, counted from 1."""
    counts = np.cumsum([len(world.normalise(word).split()) for word in words])
    return int(np.searchsorted(counts, number))


def _with_mark(words: list[str], place: int) -> Markup:
    """The words as Markdown, the one at this place marked, and those after it grey."""
    parts = [escape(" ".join(words[:place]))]
    if place < len(words):
        parts.append(Markup(f"**{escape(words[place])}**"))
    if words[place + 1 :]:
        parts.append(Markup(f"*{escape(' '.join(words[place + 1 :]))}*"))
    return Markup(" ").join(part for part in parts if part)


def readable_sentences(run: FinishedRun, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Sentences of a run, where · is the space before a subword and ↵ the end of a line, as in the lab.

    Vocabularies of subwords write Ġ and Ċ, which are letters in one of words.
    """
    signs = str.maketrans({} if run.has_words else {"Ġ": "·", "Ċ": "↵"})
    readable = []
    for one in sentences:
        words = [word.translate(signs) for word in one.words]
        readable.append(dataclasses.replace(one, words=words, next=one.next.translate(signs)))
    return readable


def shown_heads(run: FinishedRun) -> list[dict[str, Any]]:
    """At most two heads with different best roles, over the first sentence.

    Heads that have a role come first, then those that the loss depends on most (`is_most_needed`: more
    than on any other). Each has a `title`, its `roles` (see `heads_with_roles`), the last rows of its
    `map` and the strongest example of its best role there: `from` attends to `to` with this `weight`, and `next`
    follows.
    """
    if not run.sentences:
        return []
    (sentence,) = readable_sentences(run, run.sentences[:1])
    words = sentence.words
    followed = [*words, sentence.next]
    pairs = _pairs_of_rows(followed, first=max(len(words) - MAP_ROWS, 0))
    heads = sorted(heads_with_roles(run), key=lambda head: -(head["loss_increase"] or 0))
    chosen: dict[str, dict[str, Any]] = {}
    for head in sorted(heads, key=lambda head: not head["claimed"]):
        role = head["role"]
        if role in chosen or len(chosen) == 2 or not len(pairs.get(role, ())):
            continue
        weights = sentence.maps[head["layer"] - 1, head["head"] - 1]
        query, key = max(pairs[role], key=lambda pair: weights[tuple(pair)])
        shown = f": {role}" if head["claimed"] else f" (closest role: {role})"
        chosen[role] = head | {
            "title": f"layer {head['layer']}, head {head['head']}{shown}",
            "from": words[query],
            "to": words[key],
            "next": followed[query + 1],
            "weight": weights[query, key],
            "map": weights[-MAP_ROWS:],
            "words": words,
            "is_most_needed": head is heads[0] and len(heads) > 1,
        }
    return list(chosen.values())


def _pairs_of_rows(followed: list[str], first: int) -> dict[str, np.ndarray]:
    """The pairs of each role in the rows of a map, from row `first` on.

    followed: the words of the map and the one that comes next, which has no row.
    """
    _, ids = np.unique(followed, return_inverse=True)
    is_text = np.array([not word.startswith("<") for word in followed])
    pairs = {}
    for role, of_role in role_pairs(ids, is_text).items():
        queries = of_role[:, 0]
        pairs[role] = of_role[(queries >= first) & (queries < len(followed) - 1)]
    return pairs


def heads_with_roles(run: FinishedRun) -> list[dict[str, Any]]:
    """Each head with the `roles` that it has, the clearest first; otherwise with its closest one."""
    fits = records(run.roles())
    heads = []
    for head in run.heads():
        of_head = [
            fit for fit in fits if (fit["layer"], fit["head"]) == (head["layer"], head["head"])
        ]
        roles = [fit for fit in of_head if fit["claimed"]] or of_head[:1]
        heads.append(head | {"roles": roles})
    return heads


@dataclasses.dataclass(frozen=True)
class Method:
    """A decoding method: its texts, their quality, and the mean number of words of its texts and of the stories.

    score: what beam search maximises, the mean over its texts; None if it is infinite.
    """

    texts: list[str]
    quality: MethodQuality
    score: float | None
    words: float
    story_words: float


def _beams(run: FinishedRun) -> dict[str, Method]:
    """The decoding methods by name, without beam 1, which is greedy decoding."""
    texts = run.tables.frame("beams")
    methods: dict[str, Method] = {}
    if run.beam_bench is None or texts.empty:
        return methods
    for name, quality in run.beam_bench.methods.items():
        if name != "beam 1":
            own = texts[texts["method"] == name]
            methods[name] = Method(
                texts=own["text"].tolist(),
                quality=quality,
                score=as_number(own["score"].mean()),
                words=_mean_words(own["text"]),
                story_words=_mean_words(own["reference"]),
            )
    return methods


def _mean_words(texts: pd.Series) -> float:
    return float(texts.str.count(r"\S+").mean())


def _beam_texts(run: FinishedRun) -> list[dict[str, Any]]:
    """The texts of the first prompt, one for each method but beam 1."""
    rows = run.tables.rows("beams")
    texts: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["prompt"] == rows[0]["prompt"] and row["method"] != "beam 1":
            texts.setdefault(row["method"], row)
    return list(texts.values())


def _greedy_is_beam_1(run: FinishedRun) -> bool:
    """Whether a beam of width 1 was measured and wrote the texts of greedy decoding."""
    texts: dict[str, list[str]] = {}
    for row in run.tables.rows("beams"):
        texts.setdefault(row["method"], []).append(row["text"])
    return "beam 1" in texts and texts["beam 1"] == texts.get("greedy")


def _bottlenecks(run: FinishedRun) -> list[tuple[str, float, float | None]]:
    """Each kind of operation with its shares of an update and of a decoding step, the largest first."""
    of_update = run.times.ckpt_bench.profile.shares if run.times.ckpt_bench else None
    of_step = run.times.kv_bench.profile.shares if run.times.kv_bench else None
    rows = [(part, share, (of_step or {}).get(part)) for part, share in (of_update or {}).items()]
    return sorted(rows, key=lambda row: -row[1])

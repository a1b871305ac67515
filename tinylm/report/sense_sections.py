"""Whether the stories make sense: the section, its pictures' numbers, and the sentences that they allow."""

from typing import Any

from tinylm.report.blocks import Blocks, gallery, paragraph, picture, record_table, table
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import (
    Finding,
    count,
    figure,
    interval,
    name_of,
    not_said,
    said,
    share_with_interval,
    visible,
    with_interval,
)

_EXAMPLE = ("impossible", "kind", "stories go on with", "the story so far")
SHOWN = 8  # continuations whose first impossible word is shown


def sense_methods(run: Run) -> dict[str, dict[str, Any]]:
    """The figures of each way to continue the prompts by its name, the stories' own first."""
    order = run.get("evaluate", "baselines", "kneser_ney", "order")
    names = {
        "references": "the stories' own",
        "decode": "as in section decode",
        "kneser_ney": f"Kneser-Ney of order {order}" if order else "Kneser-Ney",
    }
    methods = run.mapping("evaluate", "sense", "methods")
    return {
        names.get(name, name_of(name)): row
        for name, row in methods.items()
        if isinstance(row, dict)
    }


def beam_senses(run: Run) -> dict[str, dict[str, Any]]:
    """The figures of sampling, greedy decoding and beam search on the prompts of beam_bench."""
    rows = run.table("beam_bench", "methods").items()
    return {method: row["sense"] for method, row in rows if isinstance(row.get("sense"), dict)}


def sense(run: Run) -> Blocks:
    """How far continuations make sense, by method and over training, and what is wrong with them; storybook only."""
    methods = sense_methods(run)
    if not methods:
        return []
    heads = ["texts", "without an impossible word", "words read for each impossible one"]

    def cells(row: dict[str, Any]) -> list[str]:
        words = "none impossible" if row.get("words") is None else with_interval(row["words"])
        return [count(row.get("texts")), share_with_interval(row.get("possible")), words]

    kinds = {
        kind: [
            visible(meaning),
            *(count(row.get("kinds", {}).get(kind)) for row in methods.values()),
        ]
        for kind, meaning in run.mapping("evaluate", "sense", "kinds").items()
        if any(row.get("kinds", {}).get(kind) for row in methods.values())
    }
    beams = {method: cells(row) for method, row in beam_senses(run).items()}
    length = count(run.param("beam_bench", "new_tokens"))
    examples = [
        [visible(row.get(key, "")) for key in ("word", "kind", "instead", "story")]
        for row in run.rows("sense")
        if row.get("method") == "decode"
    ]
    return (
        paragraph(
            "The generator that wrote the training stories can tell whether it could have written any other text, and "
            "where it first could not.",
            visible(run.get("evaluate", "sense", "protocol") or ""),
        )
        + gallery(
            picture(
                "sense_methods",
                "More is better. The stories' own continuations have no impossible word.",
            ),
            picture(
                "sense_training",
                "20 texts at each point, from the prompt of the samples; the band is 95 %.",
            ),
        )
        + record_table(
            "Continuations that make sense (95 % intervals)",
            "method",
            {n: cells(r) for n, r in methods.items()},
            heads,
        )
        + record_table(f"Beam search beside them, {length} tokens at most", "method", beams, heads)
        + table(
            "What the first impossible word is, in how many texts",
            ["kind", "meaning", *methods],
            [[kind, *row] for kind, row in kinds.items()],
            prose=["kind", "meaning"],
        )
        + table(
            "First impossible words of continuations as in section decode",
            _EXAMPLE,
            examples[:SHOWN],
            prose=_EXAMPLE,
            stacked=True,
        )
    )


def _apart(one: dict[str, Any], other: dict[str, Any]) -> int:
    """1 or -1 if one has more or fewer words for each impossible one than the other and the intervals do not meet."""
    a, b = interval(one.get("words")), interval(other.get("words"))
    return 0 if a is None or b is None else (a[0] > b[1]) - (a[1] < b[0])


def _words(row: dict[str, Any]) -> str:
    return figure(row.get("words", {}).get("value"))


def judge_sense(run: Run) -> list[Finding]:
    """Do the stories make sense, more than those of n-grams, and by which method most?"""
    methods = run.mapping("evaluate", "sense", "methods")
    own = methods.get("decode") or {}
    drawn, ngrams = (
        methods.get("temperature 1") or {},
        methods.get("kneser_ney") or {},
    )  # of whole distributions both
    if not own.get("texts"):
        return []
    possible, texts = as_number(own.get("possible", {}).get("value")) or 0.0, count(own["texts"])
    after = f"; {_words(own)} words are read for each impossible one" if own.get("words") else ""
    found = [
        said(
            f"{count(possible * own['texts'])} of {texts} continuations could have been written by the generator, with "
            f"no impossible word{after}."
        )
    ]
    if own.get("words"):
        most = max(own["kinds"].values())
        kinds = [kind for kind, texts in own["kinds"].items() if texts == most]
        meanings = "; ".join(
            f"“{kind}”: {run.get('evaluate', 'sense', 'kinds', kind)}" for kind in kinds
        )
        which = "kind of impossible word is" if len(kinds) == 1 else "kinds of impossible word are"
        found.append(said(f"The most frequent {which} {meanings}."))
    if way := _apart(drawn, ngrams):
        more = "longer" if way > 0 else "less long"
        found.append(
            said(
                f"The model makes sense for {more} than n-grams do, each drawn from its own distribution: "
                f"{_words(drawn)} words against {_words(ngrams)}."
            )
        )
    return found + _judge_methods(run)


def _judge_methods(run: Run) -> list[Finding]:
    """What beam search does to sense, where the intervals say something."""
    methods = beam_senses(run)
    greedy = methods.get("greedy", {})
    found = []
    for name, row in methods.items():
        if (
            not name.startswith("beam ")
            or name == "beam 1"
            or not row.get("words")
            or not greedy.get("words")
        ):
            continue
        width, words = name.removeprefix("beam "), f"{_words(row)} words against {_words(greedy)}"
        if way := _apart(row, greedy):
            more = "longer" if way > 0 else "less long"
            found.append(
                said(
                    f"Beam search with width {width} makes sense for {more} than greedy decoding ({words})."
                )
            )
        else:
            found.append(
                not_said(
                    f"Whether beam search with width {width} makes more sense than greedy decoding: the intervals "
                    f"overlap ({words})."
                )
            )
    return found


SENSE_RULES = (judge_sense,)

"""Sections on the attention heads: maps of sentences and over training, what each head does and contributes."""

from collections.abc import Sequence

from tinylm.report.blocks import (
    Blocks,
    Maps,
    bullets,
    facts,
    fold,
    gallery,
    heading,
    joined,
    paragraph,
    picture,
    table,
)
from tinylm.report.heads import best_by_role, heads, tendencies
from tinylm.report.sources import Moment, Run, Sentence
from tinylm.report.wording import ABSENT, count, figure, flag, loss, prediction, share, visible

_NARROW = 4  # most heads whose names fit into a picture of the usual width
OWN_SENTENCES = "Own sentences"
_MAPS_ON_PAPER = 48  # of attention over training


def attention(run: Run) -> Blocks:
    """Every head of every layer for the drawn sentences."""
    found = joined(
        fold(_sentence_title(sentence), _maps(sentence), is_open=number == 0)
        for number, sentence in enumerate(run.sentences())
    )
    if not found:
        return []
    predicted = any(sentence.probability is not None for sentence in run.sentences())
    more = "Titles name the token that the model considers most likely after the last one, with its probability."
    return (
        heading("Maps of single sentences")
        + paragraph(_how_to_read(run), more if predicted else "")
        + found
    )


def _how_to_read(run: Run) -> str:
    return (
        f"Each row is a {run.token()} that asks, each column one that it looks at; a row's weights sum to one. Colour "
        f"is the square root of the weight, so that small weights can be seen. Each sees itself and "
        "what came before, hence the triangle."
    )


def _sentence_title(sentence: Sentence) -> str:
    after = prediction(sentence)
    return " ".join(map(visible, sentence.words)) + (f" → {after}" if after else "")


def _maps(sentence: Sentence) -> Blocks:
    """A row of maps for each layer."""
    after = prediction(sentence)
    return [
        Maps(
            sentence.words,
            [
                (f"layer {layer}, head {head}{f' · {after}' if after else ''}", weights)
                for head, weights in enumerate(heads, start=1)
            ],
        )
        for layer, heads in enumerate(sentence.maps, start=1)
    ]


def own_sentences(run: Run) -> Blocks:
    """The sentences that section `report` names: all heads, and their evolution where epochs were kept."""
    found = joined(
        fold(_sentence_title(last), _maps(last) + _evolution(kept), is_open=True)
        for last, kept in run.own_sentences()
    )
    if not found:
        return []
    note = "The sentences of report.sentences; of a long one, as many tokens as a map can show."
    return heading(OWN_SENTENCES) + paragraph(note, _how_to_read(run)) + found


def _evolution(kept: Sequence[Moment]) -> Blocks:
    """Every layer over training, on paper the first."""
    return joined(
        fold(
            f"Layer {layer} over training, a head in each row",
            rows,
            is_open=layer == 1,
            on_paper=layer == 1,
        )
        for layer, rows in enumerate(_over_training(kept) if kept else (), start=1)
    )


def moments(run: Run) -> Blocks:
    """The same heads at several epoch checkpoints, side by side."""
    found: Sequence[Moment] = run.moments()
    if not found:
        return []
    layers = _over_training(found)
    few = sum(map(len, layers)) * len(found) <= _MAPS_ON_PAPER
    folds = [
        fold(f"Layer {layer}", rows, is_open=layer == 1, on_paper=few or layer == 1)
        for layer, rows in enumerate(layers, start=1)
    ]
    note = (
        "The same sentence, seen by the weights as they stood after so many epochs; each row is one head, from early "
        "to late in training."
    )
    return heading("Attention over training") + paragraph(note) + joined(folds)


def _over_training(found: Sequence[Moment]) -> list[Blocks]:
    """For each layer a row of maps per head, from early to late in training."""
    layers, heads = found[0].maps.shape[:2]
    return [
        [
            Maps(
                found[0].words,
                [
                    (_moment_title(moment, layer + 1, head + 1), moment.maps[layer, head])
                    for moment in found
                ],
            )
            for head in range(heads)
        ]
        for layer in range(layers)
    ]


def _moment_title(moment: Moment, layer: int, head: int) -> str:
    after = prediction(moment)
    return f"epoch {moment.epochs:g} · layer {layer}, head {head}{f' · {after}' if after else ''}"


def head_roles(run: Run) -> Blocks:
    """Each head's role beside its baseline, and the loss that its removal adds."""
    known = heads(run)
    if not known:
        return []
    rows = [
        [
            f"{head.layer}, {head.head}",
            ", ".join(head.claimed() or [f"({role.name})" for role in head.roles[:1]]) or ABSENT,
            figure(head.roles[0].score, 2) if head.roles else ABSENT,
            figure(head.roles[0].baseline, 2) if head.roles else ABSENT,
            loss(head.increase),
            f"{loss(head.low)} to {loss(head.high)}"
            if head.low is not None and head.high is not None
            else ABSENT,
            head.verdict(),
        ]
        for head in known
    ]
    best = [
        [
            role.name,
            f"{role.layer}, {role.head}",
            figure(role.score, 2),
            figure(role.baseline, 2),
            count(role.positions),
            flag(role.claimed),
        ]
        for role in best_by_role(run).values()
    ]
    ablation, margin = (
        run.mapping("evaluate", "heads", "ablation"),
        run.get("evaluate", "heads", "margin"),
    )
    missing = run.mapping("evaluate", "heads", "not_measured")
    return (
        heading("Role and importance of each head")
        + paragraph(
            "A role says where a head looks from a given kind of token; its score is measured over evaluation "
            "sentences. Many roles lie at fixed distances, so each score stands beside that of a head which knows "
            f"position only (previous token, a position itself: of one that attends evenly); it counts from "
            f"{figure(margin, 2)} above that baseline, where the interval of the difference lies above 0 too. "
            "The loss added is that of the model with this one head ablated, minus that of the full model; where its "
            "interval contains 0 the head is idle. Scores are those of the role named first; "
            "in brackets the one that comes closest where none stands out."
        )
        + picture(
            "head_roles",
            "Colour and number: what the loss rises by, in nats per token, when this head is ablated. Words: the "
            "role that stands out, or idle.",
            wide=max(head.head for head in known) > _NARROW,
        )
        + table(
            "Heads: best role, and loss without the head",
            [
                "layer, head",
                "role",
                "score",
                "baseline",
                "loss added",
                "95 % interval",
                "without it",
            ],
            rows,
            prose=["role", "without it"],
        )
        + table(
            "Roles: the head that fits each best",
            ["role", "layer, head", "score", "baseline", "positions", "stands out"],
            best,
        )
        + (
            paragraph("Not measured:") + bullets(f"{role}: {why}" for role, why in missing.items())
            if missing
            else []
        )
        + facts(
            [
                (
                    "passages that roles are measured on",
                    count(run.get("evaluate", "heads", "passages")),
                ),
                (
                    "of their words classified",
                    share(run.get("evaluate", "heads", "classified_share")),
                ),
                ("classes of words", _tagger(run)),
                ("stories scored without each head", count(ablation.get("stories"))),
                ("loss of the whole model on them", loss(ablation.get("nats_per_token"))),
                ("idle heads", f"{count(sum(head.idle for head in known))} of {count(len(known))}"),
            ]
        )
    )


def _tagger(run: Run) -> str:
    """Where the classes come from, and how right the look-up is where that is known."""
    tagger = run.mapping("evaluate", "heads", "tagger")
    if not tagger:
        return "looked up in the storybook's lexicon, with rules for words of several classes"
    return (
        f"from the generator; looked up instead, as on other corpora, {share(tagger.get('right'))} of "
        f"{count(tagger.get('words'))} words would be right and {share(tagger.get('unknown'))} unknown"
    )


def _interpretations(run: Run) -> Blocks:
    layers: dict[str, list[list[str]]] = {}
    for row in run.rows("heads"):
        line = [str(row.get("head")), row.get("interpretation", ABSENT)]
        layers.setdefault(str(row.get("layer")), []).append(line)
    return gallery(
        *(
            table(
                f"What the heads of layer {layer} attend to",
                ["head", "interpretation"],
                rows,
                prose=["interpretation"],
            )
            for layer, rows in layers.items()
        )
    )


def head_tendencies(run: Run) -> Blocks:
    """What every head tends to look at: one matrix per figure, and one line of interpretation per head."""
    found = tendencies(run)
    drawn = gallery(
        *(
            picture(
                f"heads_{name}",
                f"Spread evenly over what it sees, a head would have "
                f"{(share if tendency.is_weight else figure)(tendency.even)}.",
            )
            for name, tendency in found.items()
        )
    )
    names = ["layer, head", *(tendency.words for tendency in found.values())]
    rows = [
        [
            f"{row.get('layer')}, {row.get('head')}",
            *(
                (share if tendency.is_weight else figure)(row.get(name))
                for name, tendency in found.items()
            ),
        ]
        for row in run.rows("heads")
    ]
    if not rows:
        return []
    sentences = run.param("evaluate", "tendency_sentences")
    over = f" over up to {count(sentences)} stories" if sentences is not None else ""
    return (
        heading("Attention statistics")
        + paragraph(
            f"Means{over} of the evaluation split. A {run.token()} early in a story sees few others, so that each "
            "figure stands beside its value for attention spread evenly."
        )
        + drawn
        + _interpretations(run)
        + fold("All figures of every head", table("Figures of every head", names, rows))
    )

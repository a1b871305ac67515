"""Sections on what the model predicts and writes: evaluation, samples, beams, attention."""

from tinylm.reporting.heatmaps import head_svg
from tinylm.reporting.markup import facts, fold, gallery, heading, paragraph, picture, record_table, table
from tinylm.reporting.pictures import baseline_rows
from tinylm.reporting.run_sections import Svgs
from tinylm.reporting.sources import Run
from tinylm.reporting.tendencies import tendencies
from tinylm.reporting.wording import ABSENT, count, figure, flag, interval, loss, many, share, visible, with_interval

_TEXT_FIGURES = ("distinct1", "distinct2", "distinct3", "repeated_4grams")


def evaluation(run: Run, svgs: Svgs) -> str:
    """Perplexity beside the baselines, and the protocol that gives the figures their meaning."""
    rows = {name: [figure(row.get("perplexity")), loss(row.get("nats_per_token"))] for name, row in baseline_rows(run)}
    protocol = run.get("evaluate", "protocol")
    ends = interval(run.get("evaluate", "perplexity_interval"))
    return (
        (paragraph(f"Protocol: {visible(protocol)}".rstrip(".") + ".") if protocol else "")
        + gallery(
            picture(
                svgs.get("baselines"),
                "Uniform: every word equally likely. Unigram: words by how often they occur. "
                "Kneser-Ney: smoothed counts of short word sequences. Floor: the generator's own uncertainty.",
            ),
            record_table("Perplexity beside the baselines", "predictor", rows, ["perplexity", "nats a token"]),
        )
        + facts(
            [
                ("95 % interval of the perplexity", f"{figure(ends[0])} to {figure(ends[1])}" if ends else ABSENT),
                ("bits per byte", loss(run.get("evaluate", "bits_per_byte"))),
                ("tokens scored", count(run.get("evaluate", "tokens"))),
                ("<unk> among the words", share(run.get("evaluate", "unknown_share"))),
            ]
        )
    )


def _quality(run: Run) -> str:
    found = run.mapping("evaluate", "samples")
    if not found:
        return ""
    bleu = {f"BLEU-{n}": [with_interval(found.get(f"bleu{n}"))] for n in range(1, 5)}
    bleu["mean BLEU of single texts"] = [with_interval(found.get("sentence_bleu"))]
    text = {
        name: [
            (share if "repeated" in key else figure)(found.get(key)),
            (share if "repeated" in key else figure)(found.get(f"reference_{key}")),
        ]
        for key, name in zip(
            _TEXT_FIGURES, ("distinct words", "distinct 2-grams", "distinct 3-grams", "repeated 4-grams")
        )
    }
    text = {
        "perplexity": [
            with_interval(found.get("continuation_perplexity")),
            with_interval(found.get("reference_perplexity")),
        ]
    } | text
    return gallery(
        record_table("Continuations and references", "figure", text, ["continuations", "references"]),
        record_table("BLEU of the continuations, 0 to 1", "figure", bleu, ["value (95 % interval)"]),
    ) + facts(
        [
            ("continuations", count(found.get("count"))),
            ("brevity penalty", figure(found.get("brevity_penalty"))),
            ("words written", count(found.get("hypothesis_tokens"))),
            ("words in references", count(found.get("reference_tokens"))),
        ]
    )


def samples(run: Run, svgs: Svgs, shown: int) -> str:
    """Continuations beside what the story said, some in view and the rest behind a fold."""
    heads = ["prompt", "reference", "continuation", "perplexity", "BLEU", "ended"]
    rows = [
        [
            visible(row.get("prompt", "")),
            visible(row.get("reference", "")),
            visible(row.get("continuation", "")),
            figure(row.get("perplexity")),
            figure(row.get("bleu")),
            flag(row.get("finished")),
        ]
        for row in run.rows("samples")
    ]
    first = table("Continuations", heads, rows[:shown], prose=heads[:3], stacked=True)
    rest = table("Further continuations", heads, rows[shown:], prose=heads[:3], stacked=True)
    note = (
        paragraph(
            "Each story of the evaluation split is cut after its first words; the model goes on, and the "
            "reference is how the story went on."
        )
        if rows
        else ""
    )
    return note + first + fold(f"{many(len(rows[shown:]), 'further continuation')}", rest) + _quality(run)


def beams(run: Run, svgs: Svgs) -> str:
    """Every method's text side by side for each prompt, quality against speed."""
    methods, speeds = run.table("beam_bench", "methods"), run.table("beam_bench_time", "methods")
    rows = {}
    for method in methods | speeds:
        quality, speed = methods.get(method, {}), speeds.get(method, {})
        rows[method] = [
            figure(quality.get("bleu4")),
            loss(quality.get("log_prob_per_token")),
            figure(quality.get("distinct2")),
            share(quality.get("repeated_4grams")),
            figure(speed.get("tokens_per_s")),
            figure(speed.get("s_per_prompt")),
        ]
    heads = ["BLEU-4", "log-prob. a token", "distinct 2-grams", "repeated 4-grams", "tokens/s", "s a prompt"]
    note = "Log-probabilities are natural logarithms under the model; the speed counts the tokens of the returned text."
    return (
        (paragraph(note) if rows else "")
        + gallery(
            picture(svgs.get("beam_log_prob"), "A wider beam searches longer for likelier text."),
            picture(svgs.get("beam_bleu"), "Likelier text need not be nearer to the reference."),
        )
        + record_table("Quality and speed", "method", rows, heads)
        + _texts(run)
    )


def _texts(run: Run) -> str:
    prompts: dict[tuple[str, str], list[list[str]]] = {}
    for row in run.rows("beams"):
        place = (row.get("prompt", ""), row.get("reference", ""))
        cells = [row.get("method", ""), row.get("text", ""), figure(row.get("log_prob")), figure(row.get("score"))]
        prompts.setdefault(place, []).append(cells)
    heads = ["method", "text", "log-probability", "score"]
    return "".join(
        fold(
            f"{visible(prompt)} …",
            table(
                f"After “{visible(prompt)}”",
                heads,
                [*rows, ["reference", reference, ABSENT, ABSENT]],
                prose=["text"],
                stacked=True,
            ),
            is_open=number == 0,
        )
        for number, ((prompt, reference), rows) in enumerate(prompts.items())
    )


def attention(run: Run, svgs: Svgs) -> str:
    """Every head of every layer for the drawn sentences."""
    blocks = []
    for number, (words, maps) in enumerate(run.sentences()):
        layers = []
        for layer, heads in enumerate(maps, start=1):
            figures = "".join(
                f"<figure>{head_svg(weights, words, f'Attention of layer {layer}, head {head}')}"
                f"<figcaption>layer {layer}, head {head}</figcaption></figure>"
                for head, weights in enumerate(heads, start=1)
            )
            layers.append(f'<div class="heads">{figures}</div>')
        blocks.append(fold(" ".join(map(visible, words)), "".join(layers), is_open=number == 0))
    note = (
        paragraph(
            "Each row is a word that asks, each column a word that it looks at; a row's weights sum to one. Colour "
            "is the square root of the weight, so that small weights can be seen. A word sees itself and what came "
            "before, hence the triangle."
        )
        if blocks
        else ""
    )
    return note + "".join(blocks)


def _interpretations(run: Run) -> str:
    layers: dict[str, list[list[str]]] = {}
    for row in run.rows("heads"):
        line = [str(row.get("head")), row.get("interpretation", ABSENT)]
        layers.setdefault(str(row.get("layer")), []).append(line)
    return gallery(
        *(
            table(
                f"What the heads of layer {layer} attend to", ["head", "interpretation"], rows, prose=["interpretation"]
            )
            for layer, rows in layers.items()
        )
    )


def head_tendencies(run: Run, svgs: Svgs) -> str:
    """What every head tends to look at: a matrix a figure, and one line of interpretation a head."""
    found = tendencies(run)
    drawn = gallery(
        *(
            picture(
                svgs.get(f"heads_{name}"),
                f"Spread evenly over what it sees, a head would have "
                f"{(share if tendency.is_weight else figure)(tendency.even)}.",
            )
            for name, tendency in found.items()
        )
    )
    heads = ["layer, head", *(tendency.words for tendency in found.values())]
    rows = [
        [
            f"{row.get('layer')}, {row.get('head')}",
            *((share if tendency.is_weight else figure)(row.get(name)) for name, tendency in found.items()),
        ]
        for row in run.rows("heads")
    ]
    numbers = fold("All figures of every head", table("Figures of every head", heads, rows))
    if not rows:
        return ""
    sentences = run.param("evaluate", "tendency_sentences")
    over = f" over up to {count(sentences)} stories" if sentences is not None else ""
    return (
        heading("What the heads tend to do")
        + paragraph(
            f"Means{over} of the evaluation split. A word early in a story sees few others, so that each "
            "figure stands beside its value for attention spread evenly."
        )
        + drawn
        + _interpretations(run)
        + numbers
    )

"""Sections on what the model predicts and writes: evaluation, continuations, greedy text, beams."""

from tinylm.report.blocks import (
    Blocks,
    Shaded,
    facts,
    fold,
    gallery,
    heading,
    paragraph,
    picture,
    record_table,
    table,
)
from tinylm.report.cost_findings import times_of
from tinylm.report.cost_sections import how_measured, with_trials
from tinylm.report.pictures import baseline_rows
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import (
    ABSENT,
    count,
    figure,
    flag,
    interval,
    loss,
    many,
    share,
    visible,
    with_interval,
)

_TEXT_FIGURES = ("distinct1", "distinct2", "distinct3", "repeated_4grams")
OWN_PROMPTS = "Own prompts"
_IN_VIEW = 3  # prompts whose outputs are side by side before the fold


def evaluation(run: Run) -> Blocks:
    """Perplexity of the model and the baselines, and the protocol by which it was measured."""
    rows = {
        name: [figure(row.get("perplexity")), loss(row.get("nats_per_token"))]
        for name, row in baseline_rows(run)
    }
    ends = interval(run.get("evaluate", "perplexity_interval"))
    return (
        _protocol(run.get("evaluate", "protocol"))
        + gallery(
            picture(
                "baselines",
                "Uniform: every token equally likely. Unigram: tokens by how often they occur. "
                "Kneser-Ney: smoothed counts of short sequences. Floor: the generator's own uncertainty."
                + _once(run),
            ),
            record_table(
                "Perplexity of the model and the baselines",
                "predictor",
                rows,
                ["perplexity", "nats per token"],
            ),
        )
        + facts(
            [
                (
                    "95 % interval of the perplexity",
                    f"{figure(ends[0])} to {figure(ends[1])}" if ends else ABSENT,
                ),
                ("bits per byte, raw text", loss(run.get("evaluate", "raw_bits_per_byte"))),
                ("bits per byte, normalised text", loss(run.get("evaluate", "bits_per_byte"))),
                ("tokens scored", count(run.get("evaluate", "tokens"))),
                (f"<unk> among the {run.token()}s", share(run.get("evaluate", "unknown_share"))),
            ]
        )
    )


def _once(run: Run) -> str:
    if not run.mapping("evaluate", "once"):
        return ""
    return (
        " This model stands here with its perplexity over windows that do not overlap, each target scored once as "
        f"for the baselines; over every window of stride 1 it is {figure(run.get('evaluate', 'perplexity'))}."
    )


def _protocol(text: object) -> Blocks:
    return paragraph(f"Protocol: {visible(text)}".rstrip(".") + ".") if text else []


def _quality(run: Run) -> Blocks:
    found = run.mapping("evaluate", "samples")
    if not found:
        return []
    bleu = {f"BLEU-{n}": [with_interval(found.get(f"bleu{n}"))] for n in range(1, 5)}
    bleu["mean BLEU of single texts"] = [with_interval(found.get("sentence_bleu"))]
    text = {
        name: [
            (share if "repeated" in key else figure)(found.get(key)),
            (share if "repeated" in key else figure)(found.get(f"reference_{key}")),
        ]
        for key, name in zip(
            _TEXT_FIGURES,
            ("distinct words", "distinct 2-grams", "distinct 3-grams", "repeated 4-grams"),
        )
    }
    text = {
        "perplexity": [
            with_interval(found.get("continuation_perplexity")),
            with_interval(found.get("reference_perplexity")),
        ],
        "perplexity, mean of single texts": [
            with_interval(found.get("mean_continuation_perplexity")),
            ABSENT,
        ],
    } | text
    return gallery(
        record_table("BLEU (95 % interval)", "order", bleu, ["score"]),
        record_table(
            "Continuations and references", "of the text", text, ["continuations", "references"]
        ),
    ) + facts(
        [
            ("continuations", count(found.get("count"))),
            ("brevity penalty", figure(found.get("brevity_penalty"))),
            ("words written", count(found.get("hypothesis_tokens"))),
            ("words in references", count(found.get("reference_tokens"))),
        ]
    )


def samples(run: Run, shown: int) -> Blocks:
    """Continuations beside the true continuations, some in view and the rest behind a fold."""
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
    protocol = _protocol(run.get("evaluate", "samples", "protocol")) or paragraph(
        "Each story of the evaluation split is cut after its first words; the model goes on, and the "
        "reference is how the story went on."
        if rows
        else ""
    )
    rest = table("Further continuations", heads, rows[shown:], prose=heads[:3], stacked=True)
    return (
        own_texts(run)
        + protocol
        + _quality(run)
        + table("Continuations", heads, rows[:shown], prose=heads[:3], stacked=True)
        + fold(many(len(rows[shown:]), "further continuation"), rest, on_paper=False)
        + greedy(run)
    )


def own_texts(run: Run) -> Blocks:
    """How the trained model continues the prompts of section `report`."""
    rows, heads = run.rows("own_texts"), ["prompt", "continuation", "perplexity", "ended"]
    if not rows:
        return []
    cells = [
        [
            visible(row["prompt"]),
            visible(row["continuation"]),
            figure(row["perplexity"]),
            flag(row["finished"]),
        ]
        for row in rows
    ]
    unknown = dict.fromkeys(word for row in rows for word in row["unknown"])
    note = f"The prompts of report.prompts, each continued once: {rows[0]['how']}."
    lacking = (
        f"Not in the vocabulary, seen as <unk>: {', '.join(map(visible, unknown))}."
        if unknown
        else ""
    )
    return paragraph(note, lacking) + table(
        OWN_PROMPTS, heads, cells, prose=heads[:2], stacked=True
    )


def greedy(run: Run) -> Blocks:
    """Prompts continued with the likeliest token each time, and its probability."""
    texts: list[tuple[str, list[tuple[str, float]]]] = []
    for row in run.rows("greedy"):
        probability = as_number(row.get("probability"))
        if probability is not None and 0 <= probability <= 1:
            if not texts or as_number(row.get("number")) == 1:
                texts.append((str(row.get("prompt", "")), []))
            texts[-1][1].append((str(row.get("token", "")), probability))
    if not texts:
        return []
    note = (
        "At each position the most likely token is taken. Its probability in percent follows it; the darker the "
        "background, the more certain the model."
    )
    return [
        *heading("Greedy continuation, token by token"),
        *paragraph(note),
        *(Shaded(prompt, tokens) for prompt, tokens in texts),
    ]


def beams(run: Run) -> Blocks:
    """Quality against speed, and every method's text side by side for each prompt."""
    methods, speeds = run.table("beam_bench", "methods"), run.table("beam_bench_time", "methods")
    rows = {}
    for method in methods | speeds:
        quality, speed = methods.get(method, {}), speeds.get(method, {})
        rows[method] = [
            figure(quality.get("bleu4")),
            loss(quality.get("log_prob_per_token")),
            figure(quality.get("distinct2")),
            share(quality.get("repeated_4grams")),
            with_trials(speed, "tokens_per_s"),
            times_of(speed, speeds.get("greedy", {}), "tokens_per_s"),
            with_trials(speed, "s_per_prompt"),
        ]
    heads = ["BLEU-4", "log-prob. per token", "distinct 2-grams", "repeated 4-grams"]
    heads += ["tokens/s", "beside greedy", "s per prompt"]
    note = (
        f"{many(run.get('beam_bench', 'prompts'), 'prompt')}, each continued by at most "
        f"{many(run.get('beam_bench', 'new_tokens'), 'token')}. Log-probabilities are natural logarithms under the "
        "model; the speed counts the tokens of the returned text."
    )
    return (
        paragraph(note if rows else "")
        + gallery(
            picture(
                "beam_log_prob",
                "How probable a method's text is under the model, and how fast it is found.",
            ),
            picture(
                "beam_bleu",
                "How close a method's text is to the reference, and how fast it is found.",
            ),
        )
        + record_table("Quality and speed (lowest to highest trial)", "method", rows, heads)
        + how_measured(run, "beam_bench_time")
        + _side_by_side(run)
    )


def _side_by_side(run: Run) -> Blocks:
    """prompt | true rest | each method; methods that wrote the same for all prompts share a column."""
    texts: dict[tuple[str, str], dict[str, str]] = {}
    scores = []
    for row in run.rows("beams"):
        prompt, method = visible(row.get("prompt", "")), visible(row.get("method", ""))
        texts.setdefault((prompt, visible(row.get("reference", ""))), {})[method] = visible(
            row.get("text", "")
        )
        scores.append([prompt, method, figure(row.get("log_prob")), figure(row.get("score"))])
    if not texts:
        return []
    columns: dict[tuple[str, ...], list[str]] = {}
    for method in dict.fromkeys(method for outputs in texts.values() for method in outputs):
        columns.setdefault(
            tuple(outputs.get(method, ABSENT) for outputs in texts.values()), []
        ).append(method)
    heads = ["prompt", "reference", *(", ".join(methods) for methods in columns.values())]
    rows = [[*place, *cells] for place, cells in zip(texts, zip(*columns))]
    caption = "Outputs of every method for the same prompts"
    more = table(
        "Outputs of every method for further prompts",
        heads,
        rows[_IN_VIEW:],
        prose=heads,
        stacked=True,
    )
    figures = paragraph(
        "Score: the log-probability over the number of tokens to the power decode.length_penalty."
    )
    figures += table(
        "Log-probability and score of each text",
        ["prompt", "method", "log-probability", "score"],
        scores,
        prose=["prompt", "method"],
    )
    return (
        heading("Side by side")
        + table(caption, heads, rows[:_IN_VIEW], prose=heads, stacked=True)
        + fold(many(len(rows[_IN_VIEW:]), "further prompt"), more, on_paper=False)
        + fold("Log-probability and score of each text", figures, on_paper=False)
    )

"""Sections on what was trained and how it went: summary, data, model, curves, stories during training."""

from collections.abc import Mapping

from tinylm.reporting.markup import escape, facts, gallery, paragraph, picture, table
from tinylm.reporting.pictures import baseline_rows, stage_seconds
from tinylm.reporting.sources import Run, as_number
from tinylm.reporting.wording import (
    ABSENT,
    big,
    count,
    figure,
    flag,
    interval,
    loss,
    many,
    name_of,
    seconds,
    share,
    visible,
)

Svgs = Mapping[str, str]
SPLIT_USES = {
    "train": "what the model learns from",
    "held_out": "a share of train kept apart, for early stopping and every choice",
    "evaluation": "stories that training never sees, read by evaluate and the benches only",
}


def _opening(run: Run) -> str:
    layers, heads = run.param("model", "layers"), run.param("model", "heads")
    size, tokens = run.get("train", "parameters"), run.get("train", "tokens")
    if as_number(size) is None or as_number(tokens) is None:
        return ""
    spent = run.get("train_time", "seconds")
    time = f" in {seconds(spent)}" if as_number(spent) is not None else ""
    source = {"storybook": "stories from the generated storybook"}.get(str(run.get("download", "source")), "stories")
    shape = f"{many(layers, 'layer')} of {many(heads, 'head')} each and {big(size)} parameters"
    return f"A transformer with {shape} read {big(tokens)} tokens of {source}{time}."


def _verdict(run: Run) -> str:
    perplexity = as_number(run.get("evaluate", "perplexity"))
    if perplexity is None:
        return ""
    others = [
        (name, value)
        for name, row in baseline_rows(run)
        if name != "this model" and (value := as_number(row.get("perplexity"))) is not None
    ]
    text = (
        f"On stories that it never saw its perplexity is {figure(perplexity)}: at each word it is as unsure as if it "
        f"had to choose among {figure(perplexity, 2)} equally likely ones."
    )
    compared = ", ".join(f"{figure(value)} ({name})" for name, value in others)
    return f"{text} For comparison: {compared}." if compared else text


def summary(run: Run, svgs: Svgs) -> str:
    """The run in plain words, and its headline figures."""
    ends = interval(run.get("evaluate", "perplexity_interval"))
    spread = f", {figure(ends[0])} to {figure(ends[1])}" if ends else ""
    total = sum(value for _, value in stage_seconds(run))
    tiles = [
        (f"perplexity on evaluation{spread}", figure(run.get("evaluate", "perplexity"))),
        ("nats a token", loss(run.get("evaluate", "nats_per_token"))),
        ("bits per byte", loss(run.get("evaluate", "bits_per_byte"))),
        ("parameters", big(run.get("train", "parameters"))),
        ("tokens seen", big(run.get("train", "tokens"))),
        ("stages, all together", seconds(total or None)),
    ]
    shown = [(name, value) for name, value in tiles if value != ABSENT]
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in shown)
    board = f'<dl class="tiles">{items}</dl>' if items else ""
    words = [text for text in (_opening(run), _verdict(run)) if text]
    return "".join(paragraph(text, kind="lead") for text in words) + board


def data(run: Run, svgs: Svgs) -> str:
    """Source, splits and vocabulary."""
    splits = run.table("download", "splits")
    rows = [
        [
            name_of(name),
            count(row.get("stories")),
            count(row.get("words")),
            count(run.get("vocab", "tokens", name)),
            share(run.get("vocab", "unknown_share", name)),
            SPLIT_USES.get(name, ABSENT),
        ]
        for name, row in splits.items()
    ]
    embedding = run.mapping("vocab", "embedding")
    source = run.get("download", "source")
    return table(
        "The three splits", ["split", "stories", "words", "tokens", "<unk>", "use"], rows, prose=["use"], stacked=True
    ) + facts(
        [
            ("source", visible(source) if source is not None else ABSENT),
            (
                "vocabulary",
                f"{count(run.get('vocab', 'size'))} ids" if run.get("vocab", "size") is not None else ABSENT,
            ),
            ("different words in train", count(run.get("vocab", "words_seen"))),
            ("word vectors", visible(embedding.get("source", ABSENT))),
            ("vector width", count(embedding.get("width"))),
            ("words with a vector", share(embedding.get("coverage"))),
        ]
    )


def model(run: Run, svgs: Svgs) -> str:
    """Parts, parameters and operations."""
    train = run.mapping("train")
    parts = run.mapping("train", "parameters_by_part")
    rows = [[name_of(name), count(value)] for name, value in parts.items()]
    if rows:
        rows.append(["total", count(train.get("parameters"))])
    settings = run.params.get("model")
    chosen = [(name_of(key), _setting(value)) for key, value in settings.items()] if isinstance(settings, dict) else []
    note = paragraph(
        "The model reads a window of tokens and gives, at each of them, a probability for every word of the "
        "vocabulary to come next; a mask keeps each position from seeing later ones."
    )
    figures = facts(
        [
            ("trained parameters", count(train.get("parameters_trainable"))),
            ("FLOP a token, forward", big(train.get("forward_flop_per_token"))),
            ("FLOP a token, training", big(train.get("training_flop_per_token"))),
            ("cache of one row", _bytes(train.get("kv_cache_bytes_per_row"))),
            ("weights", _bytes(train.get("weight_bytes"))),
            ("optimizer state", _bytes(train.get("optimizer_bytes"))),
        ]
    )
    drawn = picture(
        svgs.get("parameters"), "Parameters by part. A tied output uses the embedding and has none of its own."
    )
    return note + facts(chosen) + figures + gallery(drawn, table("Parameters by part", ["part", "parameters"], rows))


def _bytes(value: object) -> str:
    number = as_number(value)
    return ABSENT if number is None else f"{figure(number / 2**20)} MiB"


def _setting(value: object) -> str:
    return "none" if value is None else flag(value) if isinstance(value, bool) else visible(value)


def curves(run: Run, svgs: Svgs) -> str:
    """Losses, perplexity and learning rate."""
    train = run.mapping("train")
    stopped = {"yes": "stopped early", "no": "ran to its budget"}.get(flag(train.get("stopped_early")), ABSENT)
    return facts(
        [
            ("updates", count(train.get("updates"))),
            ("epochs", figure(train.get("epochs"))),
            ("train loss at the end", loss(train.get("train_loss"))),
            ("held-out loss, last", loss(train.get("held_out_loss_last"))),
            ("held-out loss, best", loss(train.get("held_out_loss_best"))),
            ("best at update", count(train.get("best_update"))),
            ("held-out perplexity of the saved weights", figure(train.get("held_out_perplexity"))),
            ("training", stopped),
            ("tokens/s", count(run.get("train_time", "tokens_per_s"))),
        ]
    ) + gallery(
        picture(
            svgs.get("loss_tokens"),
            "Cross-entropy in nats a token. Train is the mean over ten updates, held-out all of the held-out split.",
        ),
        picture(svgs.get("loss_steps"), "The same losses against the number of updates."),
        picture(
            svgs.get("perplexity"), "exp(loss): the number of equally likely words that would leave one as unsure."
        ),
        picture(svgs.get("learning_rate"), "The optimizer's step size."),
        picture(svgs.get("grad_norm"), "Length of the gradient before clipping."),
    )


def stories(run: Run, svgs: Svgs) -> str:
    """What the model wrote at several points of its training."""
    items = [
        f'<li><p class="when">after {escape(big(row.get("tokens")))} tokens (update {escape(count(row.get("update")))})'
        f"</p><blockquote>{escape(row.get('text', ''))}</blockquote></li>"
        for row in run.rows("stories")
    ]
    if not items:
        return ""
    note = paragraph(
        f"The model continues “{visible(run.param('train', 'sample_prompt'))}” again and again while it learns; "
        "the sampling settings stay the same."
    )
    return f'{note}<ol class="stories">{"".join(items)}</ol>'

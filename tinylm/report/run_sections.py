"""Sections on the run as a whole: summary, how training went, stories during training, use of time, settings."""

from typing import Any

from tinylm.report.blocks import (
    Blocks,
    Quotes,
    bullets,
    facts,
    gallery,
    heading,
    joined,
    paragraph,
    picture,
    table,
)
from tinylm.report.findings import findings
from tinylm.report.pictures import baseline_rows, stage_seconds
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import STAGES, Run, as_number
from tinylm.report.wording import (
    ABSENT,
    big,
    count,
    figure,
    flag,
    interval,
    loss,
    many,
    mebibytes,
    name_of,
    seconds,
    visible,
)


def _opening(run: Run) -> str:
    layers, heads = run.param("model", "layers"), run.param("model", "heads")
    size, tokens = run.get("train", "parameters"), run.get("train", "tokens")
    if as_number(size) is None or as_number(tokens) is None:
        return ""
    spent = run.get("train_time", "seconds")
    time = f" in {seconds(spent)}" if as_number(spent) is not None else ""
    source = {"storybook": "stories from a synthetic corpus"}.get(
        str(run.get("download", "source")), "text"
    )
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
        f"{_where(run)} its perplexity is {figure(perplexity)}: at each {run.token()} it is as unsure as "
        f"if it had to choose among {figure(perplexity, 2)} equally likely ones."
    )
    compared = ", ".join(f"{figure(value)} ({name})" for name, value in others)
    once = as_number(run.get("evaluate", "once", "perplexity"))
    if compared and once is not None:
        return (
            f"{text} That is over every window of stride 1, in which a {run.token()} counts once for each window that "
            f"holds it. Over windows that do not overlap, each {run.token()} scored once, it is {figure(once)}; for "
            f"comparison, scored once as well: {compared}."
        )
    return f"{text} For comparison: {compared}." if compared else text


def _where(run: Run) -> str:
    if not run.evaluates_held_out():
        return "On text that it never saw"
    overlap = as_number(run.get("vocab", "split", "overlap"))
    straddle = f", windows straddle the cut by {many(overlap, 'token')}" if overlap else ""
    made_here = (
        ""
        if run.param("vocab", "tokenizer") == "gpt2"
        else ", the vocabulary was made with it in view"
    )
    return (
        f"On the end of the token stream (which is the held-out split as well{made_here}{straddle})"
    )


def byline(settings: ReportSettings) -> list[str]:
    """The lines under the title: who wrote it, and where the model is published."""
    path = settings.hub_path
    return [
        line
        for line in (settings.author, path and f"The model on the Hugging Face hub: {path}")
        if line
    ]


def subtitle(run: Run) -> str:
    """What this is a report of."""
    machine = run.mapping("train_time", "conditions")
    measured = ", ".join(visible(machine[key]) for key in ("date", "cpu") if machine.get(key))
    return f"Report of one run{f'; trained {measured}' if measured else ''}"


def summary(run: Run) -> Blocks:
    """The run in plain words, and its headline figures."""
    ends = interval(run.get("evaluate", "perplexity_interval"))
    spread = f", {figure(ends[0])} to {figure(ends[1])}" if ends else ""
    total = sum(value for _, value in stage_seconds(run))
    tiles = [
        (f"perplexity on evaluation{spread}", figure(run.get("evaluate", "perplexity"))),
        ("nats per token", loss(run.get("evaluate", "nats_per_token"))),
        ("bits per byte, raw text", loss(run.get("evaluate", "raw_bits_per_byte"))),
        ("parameters", big(run.get("train", "parameters"))),
        ("tokens seen", big(run.get("train", "tokens"))),
        ("time of the stages, accumulation runs left out", seconds(total or None)),
    ]
    leads = joined(paragraph(text, kind="lead") for text in (_opening(run), _verdict(run)))
    return leads + facts(tiles, board=True)


def curves(run: Run) -> Blocks:
    """Losses, perplexity and learning rate."""
    train = run.mapping("train")
    end = "ran to its budget" if run.param("train", "stop_after") is None else "ended at stop_after"
    stopped = {"yes": "stopped early", "no": end}.get(flag(train.get("stopped_early")), ABSENT)
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
            "loss_tokens",
            "Cross-entropy in nats per token. Train is the mean over ten updates, held-out all of the held-out split."
            + _band(run),
        ),
        picture("loss_steps", "The same losses against the number of updates."),
        picture(
            "perplexity",
            "exp(loss): the number of equally likely tokens that would leave one as unsure.",
        ),
        picture("learning_rate", "The optimizer's step size."),
        picture("grad_norm", "Gradient norm before clipping."),
    )


def _band(run: Run) -> str:
    trained = as_number(run.get("seeds", "n"))
    return (
        f" The band holds the held-out losses of all {count(trained)} seeds."
        if trained and trained > 1
        else ""
    )


def stories(run: Run) -> Blocks:
    """What each checkpoint of training writes after the first evaluation prompt."""
    first: dict[str, dict[str, Any]] = {}
    for row in run.rows("stories"):
        first.setdefault(str(row.get("epochs", "")), row)
    items = []
    for epochs, row in first.items():
        when = f"after {epochs} epochs" if epochs else "at the end"
        items.append((when, f"{row.get('prompt', '')} {row.get('text', '')}"))
    if not items:
        return []
    note = "One evaluation story continued by the weights as they stood in training."
    return [*paragraph(note), Quotes(items)]


def budget(run: Run) -> Blocks:
    """Where the time went, and on which machine."""
    machines: dict[str, list[str]] = {}
    for stage in STAGES:
        machine = run.get(f"{stage}_time", "conditions")
        if isinstance(machine, dict):
            line = ", ".join(
                f"{name_of(str(key))} {visible(value)}" for key, value in machine.items()
            )
            machines.setdefault(line, []).append(stage)
    rows = [
        [stage, seconds(s), mebibytes(run.get(f"{stage}_time", "peak_mib"))]
        for stage, s in stage_seconds(run)
    ]
    measured = [[", ".join(stages), line] for line, stages in machines.items()]
    note = (
        "Wall time and peak memory (process and its workers, resident) of each stage on this machine; a cached stage "
        "costs nothing. The runs of the accumulation settings are not among them."
    )
    return gallery(
        picture("seconds", note),
        table("Time of each stage", ["stage", "time", "peak memory"], rows),
    ) + table("Measured on", ["stages", "machine"], measured, prose=["stages", "machine"])


def conclusions(run: Run) -> Blocks:
    """The sentences that the rules of `findings` allow for these numbers."""
    found = findings(run)
    return joined(
        heading(title) + bullets(finding.text for finding in found if finding.claim == claim)
        for title, claim in (("It shows", True), ("It does not show", False))
        if any(finding.claim == claim for finding in found)
    )


def settings(run: Run) -> Blocks:
    """All of params.yaml, one table per section."""
    tables = joined(
        table(
            str(section),
            ["key", "value"],
            [[str(k), _value(v)] for k, v in values.items()],
            prose=["value"],
        )
        for section, values in run.params.items()
        if isinstance(values, dict)
    )
    note = (
        "params.yaml as it stood when this report was written. The section runtime changes no result; under which "
        "conditions times were taken is said with them."
    )
    return paragraph(note) + gallery(tables, small=True) if tables else []


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

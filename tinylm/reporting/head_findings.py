"""Rules about attention heads: where they look, which role they fit, what they contribute."""

from tinylm.reporting.finding import Finding, not_said, said
from tinylm.reporting.heads import STANDS_OUT, best_by_role, heads
from tinylm.reporting.sources import Run
from tinylm.reporting.tendencies import tendencies
from tinylm.reporting.wording import count, figure, loss, many, share


def judge_heads(run: Run) -> list[Finding]:
    """Which tendencies stand out, and how many heads show none."""
    found = []
    for tendency in tendencies(run).values():
        if not tendency.is_weight or tendency.even is None:
            continue
        layer, head, value = tendency.highest()
        if value - tendency.even >= STANDS_OUT:
            found.append(
                f"{tendency.words} (layer {layer}, head {head}: {share(value)} of the weight, "
                f"{share(tendency.even)} if spread evenly)"
            )
    rows = run.rows("heads")
    if not rows:
        return []
    even = sum(row.get("interpretation") == "spread evenly" for row in rows)
    first = (
        f"Heads specialise; strongest for each kind: {'; '.join(found)}."
        if found
        else "No head stands out from even attention."
    )
    return [
        said(f"{first} {count(even)} of {count(len(rows))} heads show no measured tendency."),
        not_said("What a head is for: a weight shows where a head looks, not what the model does with what it finds."),
    ]


def judge_roles(run: Run) -> list[Finding]:
    """Which of the described roles some head fits better than its baseline, position alone or even attention."""
    best = best_by_role(run)
    if not best:
        return []
    found = [role for role in best.values() if role.claimed]
    absent = [role.name for role in best.values() if not role.claimed]
    findings = []
    if found:
        named = "; ".join(
            f"{role.name} (layer {role.layer}, head {role.head}: {figure(role.score, 2)} against "
            f"a baseline of {figure(role.baseline, 2)})"
            for role in found
        )
        findings.append(
            said(
                "Roles that a head fits better than position alone explains (previous token: than even attention): "
                f"{named}."
            )
        )
    if absent:
        findings.append(said(f"No head fits these roles better than that baseline: {', '.join(absent)}."))
    return findings


def judge_ablation(run: Run) -> list[Finding]:
    """Which head the model needs most, and how many it does not need."""
    known = [head for head in heads(run) if head.increase is not None]
    if not known:
        return []
    most = max(known, key=lambda head: head.increase or 0)
    idle = sum(head.idle for head in known)
    text = f"{count(idle)} of {many(len(known), 'head')} can be ablated without a measurable change."
    if not most.idle and most.increase is not None and most.increase > 0:
        text = (
            f"The model needs layer {most.layer}, head {most.head} most: without it the loss rises by "
            f"{loss(most.increase)} nats per token ({loss(most.low)} to {loss(most.high)}). {text}"
        )
    return [
        said(text),
        not_said(
            "What heads are worth together: they were ablated one at a time, and where two do the same work "
            "each looks idle."
        ),
    ]


HEAD_RULES = (judge_heads, judge_roles, judge_ablation)

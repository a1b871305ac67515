"""The published systems compared with our recorded runs: every table of comparison.yaml, the studies and the claims.

Printed as Markdown. A test compares each number with the record that it names.
"""

import math
import sys
from itertools import chain
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from studies.records import (
    FOLDER,
    SYSTEMS,
    Record,
    published,
    read,
    read_result,
    read_run,
    settings_of,
)
from studies.scaling import law_tables
from tinylm.base.command import Parser, run_command
from tinylm.evaluate.significance import claims, difference_over_seeds, holm, p_value
from tinylm.params.presets.write import differences, preset_values, value_as_yaml
from tinylm.report import render

TEMPLATE = FOLDER / "published.md.j2"
COLUMNS = ("quantity", "published", "tinylm", "what differs")
STUDY_COLUMNS = ("setting", "seeds", "validation loss", "perplexity", "compared with the first")
NO_CLAIM = "no difference claimed"
VERDICTS = ("reproduced", "consistent", "contradicted", "depends on", "not testable here")


def _cells(row: Record) -> list[str]:
    return [row["quantity"], row["published"], row["ours"], row["differs"]]


def comparison_table(rows: list[Record]) -> Markup:
    """A table of comparison.yaml."""
    return render.table(COLUMNS, map(_cells, rows))


def headlines() -> Markup:
    """The rows of comparison.yaml that are marked as headlines."""
    systems = published()
    rows = []
    for system, tables in read("comparison.yaml").items():
        for row in chain.from_iterable(table["rows"] for table in tables):
            if row.get("headline"):
                rows.append([systems[system]["kind"], *_cells(row)])
    for number in range(len(rows) - 1, 0, -1):
        if rows[number][-1] == rows[number - 1][-1] != "none":
            rows[number][-1] = "as above"
    return render.table(("source", *COLUMNS), rows)


def _with_spread(values: pd.Series, digits: int) -> str:
    """Mean and standard deviation over seeds."""
    if values.isna().all():
        return "–"
    spread = f" ± {values.std():.{digits}f}" if values.count() > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def compared_with_first(losses: dict[str, dict[int, float]]) -> dict[str, Record]:
    """For each later setting: its validation loss minus the first's, p and what may be claimed.

    losses: {setting: {seed: loss}}. All runs are scored on the same batches: other stories are not accounted for.
    """
    first, *others = losses
    values: dict[str, float] = {}
    p_values = []
    for name in others:
        if losses[first] and losses[name]:
            values[name], error = difference_over_seeds(losses[first], losses[name])
            p_values.append(p_value(values[name], [error]) if error else math.nan)
    compared = {}
    for name, p, is_claimed in zip(values, holm(p_values), claims(p_values)):
        says = NO_CLAIM
        if is_claimed:
            says = "worse" if values[name] > 0 else "better"
        says += ": a setting has one seed" if math.isnan(p) else f"; p = {p:.2g}"
        compared[name] = {"difference": values[name], "p": float(p), "says": says}
    return compared


def study_table(result: pd.DataFrame) -> Markup:
    """A row for each setting of a study's result."""
    settings = {str(name): runs for name, runs in result.groupby("setting", sort=False)}
    losses = {}
    for name, runs in settings.items():
        learned = runs[runs["diverged"] == 0]
        losses[name] = dict(zip(learned["seed"], learned["held_out_loss"], strict=True))
    compared = compared_with_first(losses)
    rows = []
    for name, runs in settings.items():
        says = compared.get(name, {}).get("says", "–")
        if runs["diverged"].any():
            says = "diverged"
        loss = _with_spread(runs["held_out_loss"], 3)
        perplexity = _with_spread(runs["held_out_perplexity"], 2)
        rows.append((name, str(len(runs)), loss, perplexity, says))
    return render.table(STUDY_COLUMNS, rows)


def result_table(result: pd.DataFrame, law: bool) -> Markup:
    """A study's result: its settings compared, or a scaling law fitted to its runs."""
    return law_tables(result) if law else study_table(result)


def _studies() -> list[Record]:
    """Every recorded study, with its definition, date and table."""
    definitions = read("studies.yaml")
    studies = []
    for path in sorted((FOLDER / "results").glob("*.csv")):
        result = read_result(path)
        definition = definitions[path.stem]
        table = result_table(result, definition.get("law", False))
        rows = {"name": path.stem, "date": result["date"].max(), "table": table}
        studies.append(definition | rows)
    return studies


def changed_since(path: Path) -> list[str]:
    """What differs between the preset of a recorded run, as it is now, and the run; "(none)" is a key that is gone."""
    run = read_run(path)
    then = settings_of(run)
    values = preset_values(str(run.loc["preset"].iloc[0]))
    return differences({key: value_as_yaml(values, key) for key in then if key in values}, then)


def quoted_claim(entry: Record) -> str:
    """A claim, the source's own words, and their place."""
    source = published()[entry["system"]]["kind"]
    return f"{entry['claim']} “{entry['quote']}” ({source}, {entry['place']})"


def counts() -> str:
    """How many claims there are, and how many have each verdict."""
    verdicts = [entry["verdict"] for entry in read("ledger.yaml").values()]
    by_verdict = ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)
    return f"{len(verdicts)} claims: {by_verdict}."


def page() -> str:
    """The page as Markdown."""
    ledger = read("ledger.yaml").values()
    return render.render(
        TEMPLATE,
        published=published(),
        systems=SYSTEMS,
        comparison=read("comparison.yaml"),
        studies=_studies(),
        runs={path.stem: changed_since(path) for path in sorted((FOLDER / "runs").glob("*.csv"))},
        counts=counts(),
        claims=[(quoted_claim(entry), entry["verdict"], entry["evidence"]) for entry in ledger],
        headlines=headlines,
        comparison_table=comparison_table,
    )


def main() -> None:
    Parser(prog="python -m studies.published", description=__doc__).parse_args()
    print(page())


if __name__ == "__main__":
    sys.exit(run_command(main))

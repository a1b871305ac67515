"""Twenty prompts at once: greedy and beams against CTranslate2 and transformers."""

from tinylm.benchmarks import decoding
from tinylm.benchmarks.checkpoint import speaker
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row

NAME = "twenty_prompts"
BEAMS = (5, 10)
UNIT = "tokens/s"


def _rows(table: decoding.Table, what: str, found: decoding.Rates, must: float, stretch: float) -> list[Row]:
    mine, int8 = decoding.best(found, "tinylm"), decoding.best(found, "CTranslate2 int8")
    note = "; ".join(filter(None, (table.changed(mine), table.changed(int8))))
    rows = decoding.row(what, found, "CTranslate2 int8", must=must, stretch=stretch, note=note)
    rows += decoding.row(what, found, "CTranslate2 fp32") + decoding.row(what, found, "transformers")
    ours = (name for name in found if name.startswith("tinylm"))
    return rows + [Row(f"{what} ({name})", UNIT, found[name], note=table.changed(name)) for name in ours]


def run(options: Options) -> list[Row]:
    """20 prompts at once: greedy, beam 5 and beam 10 against CTranslate2 and transformers."""
    asked = decoding.asked_of(speaker(options))
    sides = decoding.our_sides(options, asked)
    sides |= decoding.transformers_side(options, asked)
    sides |= decoding.ct2_sides(options, asked, sorted({1, options.threads}))
    with decoding.opened(sides):
        table = decoding.Table(options, sides, None)
        greedy = table.measure("greedy")
        beams = {width: table.measure(width) for width in BEAMS}
    rows = _rows(table, "greedy", greedy, 2.0, 3.0)
    for width, found in beams.items():
        rows += _rows(table, f"beam {width}", found, 1.5, 2.0)
    one, five = (found[decoding.best(found, "tinylm")] for found in (greedy, beams[BEAMS[0]]))
    rows.append(Row("beam 5 as a share of greedy", UNIT, five, one, "greedy", five["median"] / one["median"], "x", 0.5))
    return rows


if __name__ == "__main__":
    command(NAME, run)

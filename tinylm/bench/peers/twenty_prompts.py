"""Twenty prompts at once: greedy and beams against CTranslate2 and transformers."""

from tinylm.bench.peers import decoding
from tinylm.bench.peers.options import Options, command
from tinylm.bench.peers.record import Row, against
from tinylm.bench.peers.speaker import speaker

NAME = "twenty_prompts"
BEAMS = (5, 10)
UNIT = "tokens/s"


def _rows(table: decoding.Table, what: str, found: decoding.Rates, must: float, stretch: float) -> list[Row]:
    mine = decoding.best(found, "tinylm")
    int8, fp32 = decoding.best(found, "CTranslate2 int8"), decoding.best(found, "CTranslate2 fp32")
    note = "; ".join(filter(None, (table.changed(mine), table.changed(int8))))
    goal = {"must": must, "stretch": stretch, "note": note}
    return [
        against(f"{what} ({mine})", UNIT, found[mine], found[int8], int8, **goal),
        against(f"{what} ({mine})", UNIT, found[mine], found[fp32], fp32),
        against(f"{what} ({mine})", UNIT, found[mine], found["transformers"], "transformers"),
        *(Row(f"{what} ({name})", UNIT, found[name], note=table.changed(name)) for name in found if "tinylm" in name),
    ]


def run(options: Options) -> list[Row]:
    """20 prompts at once: greedy, beam 5 and beam 10 against CTranslate2 and transformers."""
    asked = decoding.asked_of(speaker(options))
    sides = decoding.our_sides(options, asked)
    sides["transformers"] = options.side("transformers", "peer_decoding:transformers", asked, peer=True)
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

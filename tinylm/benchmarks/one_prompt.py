"""One prompt: sampling and beams against transformers, CTranslate2 and llama2.c."""

import dataclasses
import functools

from tinylm.benchmarks import decoding
from tinylm.benchmarks.checkpoint import speaker
from tinylm.benchmarks.interleaved import Side, in_turn, rates, spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row
from tinylm.benchmarks.shape import of_size

NAME = "one_prompt"
ALONE = {"full": 4, "tiny": 1}  # prompts of a turn
BEAMS = (5, 10)
RUNS = {"full": 10, "tiny": 1}
UNIT = "tokens/s"


def _llama2c(options: Options, side: Side) -> dict[str, dict[str, float]]:
    """Its fp32 and int8 on one core and on all, in turn."""
    asked = {
        f"llama2.c {precision}, {cores} core{'s' * (cores > 1)}": {"precision": precision, "cores": cores}
        for precision in ("fp32", "int8")
        for cores in sorted({1, options.threads})
    }
    runs = RUNS[options.size]
    turns = {name: functools.partial(side.turn, runs=runs, **request) for name, request in asked.items()}
    return {name: spread(rates(found)) for name, found in in_turn(turns, options.turns).items()}


def _sampling(table: decoding.Table, llama: dict[str, dict[str, float]]) -> list[Row]:
    found = table.measure("sample") | llama
    note = table.changed(decoding.best(found, "tinylm"))
    rows = decoding.row("sampling", found, "transformers", must=4.0, stretch=6.0, note=note)
    rows += decoding.row("sampling", found, "llama2.c fp32", must=1.0, note=note)
    rows += decoding.row("sampling", found, "llama2.c int8", stretch=1.0, note=note)
    ours = (name for name in found if name.startswith("tinylm"))
    return rows + [Row(f"sampling ({name})", UNIT, found[name], note=table.changed(name)) for name in ours]


def _beams(table: decoding.Table, width: int) -> list[Row]:
    found = table.measure(width)
    note = table.changed(decoding.best(found, "tinylm"))
    what = f"beam {width}"
    rows = decoding.row(what, found, "transformers", must=4.0, stretch=6.0, note=note)
    rows += decoding.row(what, found, "CTranslate2 fp32", must=4.0, note=note)
    return rows + decoding.row(what, found, "CTranslate2 int8", note=note)


def run(options: Options) -> list[Row]:
    """One prompt: sampling, beam 5 and beam 10 against transformers, CTranslate2 and llama2.c (LLAMA2C)."""
    asked = decoding.asked_of(speaker(options))
    sides = decoding.our_sides(options, asked)
    sides |= decoding.transformers_side(options, asked)
    sides |= decoding.ct2_sides(options, asked, [1])
    if options.llama2c is not None:
        setup = {"clone": str(options.llama2c), "folder": str((options.work / "llama2c").absolute())}
        shape = {"shape": dataclasses.asdict(of_size(options.size))}
        sides["llama2.c"] = options.side("llama2.c", "llama2c:make", setup | shape, peer=True)
    else:
        print("LLAMA2C is not set: llama2.c was not measured", flush=True)
    with decoding.opened(sides):
        c_side = sides.pop("llama2.c", None)
        table = decoding.Table(options, sides, ALONE[options.size])
        table.measure("greedy", ["tinylm", "CTranslate2 int8"])
        llama = _llama2c(options, c_side) if c_side is not None else {}
        rows = _sampling(table, llama)
        for width in BEAMS:
            rows += _beams(table, width)
    return rows


if __name__ == "__main__":
    command(NAME, run)

"""Decoding the same weights: lines `one_prompt` and `twenty_prompts`, against transformers, CTranslate2, llama.cpp and
llama2.c.

Each lower precision is shown with the share of positions whose likeliest token it changes.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.checkpoint import PROMPTS, checkpoint
from benchmarks.contenders.decoding import MODES
from benchmarks.interleaved import Contender, rates, trials
from benchmarks.options import Entry, Options
from benchmarks.record import Row, against, best
from benchmarks.shape import of_size

ALONE = {"full": 4, "tiny": 1}  # prompts of a trial when each is decoded by itself
TEXTS = {"full": 10, "tiny": 1}  # of a trial of llama2.c
BEAMS = (5, 10)
UNIT = "tokens/s"
EQUAL = (
    ("fp32", "f32"),
    ("bf16", "f16"),
    ("int8", "q8_0"),
)  # modes of ours, and of llama.cpp, of equal precision
GOALS = {"f32": (1.5, 2.0), "q8_0": (2.0, 3.0)}  # one prompt, one core
Rates = Mapping[str, Mapping[str, float]]


def entries(options: Options, workers: Iterable[int]) -> dict[str, Entry]:
    """tinylm in each mode, transformers, CTranslate2 in both precisions with each number of workers."""
    made = checkpoint(options)
    entries = {f"tinylm {mode}": Entry("decoding:ours", made | {"mode": mode}) for mode in MODES}
    entries["transformers"] = Entry("decoding:transformers", made, peer=True, needs="transformers")
    for quantization in (None, "int8"):
        for number in workers:
            name = f"CTranslate2 {quantization or 'fp32'}" + (
                f", {number} workers" if number > 1 else ""
            )
            setup = made | {"quantization": quantization, "workers": number}
            entries[name] = Entry("decoding:ctranslate2", setup, peer=True, needs="ctranslate2")
    return entries


def llama_cpp(options: Options, sequences: int) -> dict[str, Entry]:
    """llama.cpp in each precision on one core and on all, and tinylm on one core (on all: `entries`)."""
    made = checkpoint(options) | {"sequences": sequences}
    entries = {}
    for ours, weights in EQUAL:
        for cores in sorted({1, options.threads}):
            setup = made | {"weights": weights, "threads": cores}
            entries[f"llama.cpp {weights}, {cores} core{'s' * (cores > 1)}"] = Entry(
                "llamacpp:make", setup, peer=True, needs="llama_cpp"
            )
        if options.threads > 1:
            entries[f"one core: tinylm {ours}"] = Entry(
                "decoding:ours", made | {"mode": ours, "threads": 1}
            )
    return entries


def equal_precision(what: str, rate: Rates) -> list[Row]:
    """Rows at equal precision, on one core and on all; none if it was not measured."""
    rows = []
    for ours, weights in EQUAL:
        must, stretch = GOALS.get(weights, (None, None)) if what == "sampling" else (None, None)
        one = best(rate, f"one core: tinylm {ours}") or f"tinylm {ours}"
        if (peer := f"llama.cpp {weights}, 1 core") in rate:
            rows.append(
                against(
                    f"{what}, {one}" if one.startswith("one core") else f"{what}, one core ({one})",
                    UNIT,
                    rate[one],
                    rate[peer],
                    peer,
                    must=must,
                    stretch=stretch,
                )
            )
        if peer := best(rate, f"llama.cpp {weights}"):
            mine = best(rate, f"tinylm {ours}")
            rows.append(against(f"{what} ({mine})", UNIT, rate[mine], rate[peer], peer))
    return rows


def _llama2c(options: Options) -> dict[str, Entry]:
    """llama2.c in fp32 and int8, each on one core and on all."""
    if options.llama2c is None:
        print("LLAMA2C is not set: llama2.c was not measured", flush=True)
        return {}
    setup: dict[str, Any] = {
        "clone": str(options.llama2c),
        "folder": str((options.work / "llama2c").absolute()),
    }
    setup |= {"shape": dataclasses.asdict(of_size(options.size)), "texts": TEXTS[options.size]}
    return {
        f"llama2.c {precision}, {cores} core{'s' * (cores > 1)}": Entry(
            "llama2c:make", setup | {"precision": precision, "cores": cores}, peer=True
        )
        for precision in ("fp32", "int8")
        for cores in sorted({1, options.threads})
    }


def changed_share(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """The share of positions with another likeliest token, each given the same text before it: up to the first
    difference of a text, after which the two continue different texts."""
    changed = positions = 0
    for one, other in zip(ours, theirs):
        same = next((place for place, (a, b) in enumerate(zip(one, other)) if a != b), None)
        changed += same is not None
        positions += len(one) if same is None else same + 1
    return changed / positions


@dataclasses.dataclass
class Table:
    """Rates of the contenders by method, and what each wrote greedily."""

    options: Options
    contenders: Mapping[str, Contender]
    alone: int | None  # prompts of a trial, one at a time; None: all at once
    ids: dict[str, list[list[int]]] = dataclasses.field(default_factory=dict)

    def measure(
        self, method: str | int, only: tuple[str, ...] = ("tinylm", "transformers", "CTranslate2")
    ) -> Rates:
        """Tokens per second of every contender whose name begins with one of `only`, in interleaved trials."""
        chosen = {
            name: contender for name, contender in self.contenders.items() if name.startswith(only)
        }
        answers = trials(chosen, self.options.trials, method=method, alone=self.alone)
        if method == "greedy":
            self.ids |= {name: trial[-1]["ids"] for name, trial in answers.items()}
        rate = rates(answers)
        for name, figures in rate.items():
            print(f"{method} {name}: {figures['median']:,.0f} tokens/s", flush=True)
        return rate

    def changed(self, name: str) -> str:
        """The share of positions whose likeliest token is another than our fp32's, in the words of a note."""
        ours, theirs = self.ids.get("tinylm fp32"), self.ids.get(name)
        if not ours or not theirs or name == "tinylm fp32":
            return ""
        return f"{changed_share(ours, theirs):.2%} of likeliest tokens changed ({name})"

    def each(self, what: str, rate: Rates) -> list[Row]:
        """A row for each of our modes."""
        ours = (name for name in rate if name.startswith("tinylm"))
        return [Row(f"{what} ({name})", UNIT, rate[name], note=self.changed(name)) for name in ours]


def row(what: str, rate: Rates, prefix: str, **goal: Any) -> list[Row]:
    """Our fastest mode against a peer's fastest; empty if the peer was not measured."""
    ours, peer = best(rate, "tinylm"), best(rate, prefix)
    return [against(f"{what} ({ours})", UNIT, rate[ours], rate[peer], peer, **goal)] if peer else []


def one_prompt(options: Options) -> list[Row]:
    """One prompt: sampling, beam 5 and beam 10 against transformers, CTranslate2, llama.cpp and llama2.c (LLAMA2C)."""
    wanted = entries(options, [1]) | llama_cpp(options, 1) | _llama2c(options)
    with options.contenders(wanted) as contenders:
        table = Table(options, contenders, ALONE[options.size])
        table.measure("greedy", ("tinylm", "one core", "CTranslate2 int8", "llama.cpp"))
        sampling = table.measure(
            "sample", ("tinylm", "one core", "transformers", "CTranslate2", "llama")
        )
        beams = {f"beam {width}": table.measure(width) for width in BEAMS}
    note = table.changed(best(sampling, "tinylm"))
    rows = row("sampling", sampling, "transformers", must=4.0, stretch=6.0, note=note)
    rows += equal_precision("sampling", sampling)
    rows += row("sampling", sampling, "llama2.c fp32", must=1.0, note=note)
    rows += row("sampling", sampling, "llama2.c int8", stretch=1.0, note=note)
    rows += table.each("sampling", sampling)
    for what, rate in beams.items():
        note = table.changed(best(rate, "tinylm"))
        rows += row(what, rate, "transformers", must=4.0, stretch=6.0, note=note)
        rows += row(what, rate, "CTranslate2 fp32", must=4.0, note=note)
        rows += row(what, rate, "CTranslate2 int8", note=note)
    return rows


def twenty_prompts(options: Options) -> list[Row]:
    """20 prompts at once: greedy, beam 5 and beam 10 against CTranslate2 and transformers; greedy against llama.cpp."""
    wanted = entries(options, sorted({1, options.threads})) | llama_cpp(options, PROMPTS)
    with options.contenders(wanted) as contenders:
        table = Table(options, contenders, None)
        all_of_them = ("tinylm", "one core", "transformers", "CTranslate2", "llama.cpp")
        methods = {"greedy": table.measure("greedy", all_of_them)} | {
            f"beam {width}": table.measure(width) for width in BEAMS
        }
    rows = []
    for what, rate in methods.items():
        int8 = "CTranslate2 int8"
        note = "; ".join(
            filter(None, (table.changed(best(rate, name)) for name in ("tinylm", int8)))
        )
        goal = {"must": 2.0, "stretch": 3.0} if what == "greedy" else {"must": 1.5, "stretch": 2.0}
        rows += row(what, rate, int8, note=note, **goal)
        rows += row(what, rate, "CTranslate2 fp32") + row(what, rate, "transformers")
        rows += equal_precision(what, rate)
        rows += table.each(what, rate)
    greedy, five = (methods[what][best(methods[what], "tinylm")] for what in ("greedy", "beam 5"))
    return [*rows, against("beam 5 as a share of greedy", UNIT, five, greedy, "greedy", must=0.5)]

"""What the full corpus, and 10 and 1,000 times as much, would take on this laptop and on one, eight and 64 H200s.

Counted: operations and bytes of the model (tinylm/model/describe.py), of data parallel training (each step's
gradients go once through a ring), of the data on disk. Measured or assumed: every field of `Assumptions`, each an
option of this command. There are two models: that of word-50k with the words of the full corpus, and one that grows
with the data, at a fixed number of tokens per parameter (Hoffmann et al. 2022), counted as 6 operations per parameter
and token.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tinylm.base.config import InputError
from tinylm.base.paths import output_file
from tinylm.benchmarks import record
from tinylm.benchmarks.shape import WORD_50K, untrained
from tinylm.host.command import Parser, guard
from tinylm.model.describe import summary

SCALES = (1, 10, 1000)
MOST = {"node": 64, "vocabulary": 10**8}
HEAD = (
    "| Corpus | Model | Machine | Text to ids | Ids on disk | Training memory per device | One epoch | Limited by |",
    "|---|---|---|---|---|---|---|---|",
)


def _assumed(value: float, note: str) -> Any:
    return dataclasses.field(default=value, metadata={"help": note})


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """Numbers that the table rests on; flop and bytes are per second and device."""

    corpus_gb: float = _assumed(1.9, "text of the full corpus")
    bytes_per_token: float = _assumed(4.96, "measured on 14 MB of TinyStories")
    vocabulary: int = _assumed(50_000, "words kept")
    tokens_per_parameter: float = _assumed(20.0, "of the growing model")
    bytes_per_parameter: float = _assumed(16.0, "weight, gradient, Adam's two")
    gradient_bytes: float = _assumed(4.0, "sent for each parameter and step")
    tokens_per_step: int = _assumed(131_072, "and device, on GPUs")
    laptop_flop: float = _assumed(8.5e11, "measured: bf16 products, 2 cores")
    laptop_share: float = _assumed(0.6, "of it that training reaches")
    laptop_gb: float = _assumed(16.0, "memory")
    laptop_mb_per_s: float = _assumed(40.0, "text to ids, 2 cores")
    gpu_flop: float = _assumed(9.9e14, "H200, dense bf16, data sheet")
    gpu_share: float = _assumed(0.2, "of it that training of small widths reaches")
    gpu_share_wide: float = _assumed(0.4, "the same, of widths above 2,000")
    gpu_gb: float = _assumed(141.0, "memory")
    node_mb_per_s: float = _assumed(400.0, "text to ids, cores of one node")
    nvlink: float = _assumed(4.5e11, "bytes a second between GPUs of a node")
    network: float = _assumed(5e10, "bytes a second and GPU between nodes")
    node: int = _assumed(8, "GPUs")


class Machine(NamedTuple):
    name: str
    devices: int
    flop: float
    memory_gb: float
    link: float | None  # bytes per second of the slowest link of the ring
    mb_per_s: float


class Model(NamedTuple):
    """parameters; flop: of training, per token; wide: whether its products fill a GPU."""

    name: str
    parameters: float
    flop: float
    wide: bool


def machines(a: Assumptions, wide: bool) -> list[Machine]:
    """Laptop, one H200, a node, eight nodes."""
    gpu = a.gpu_flop * (a.gpu_share_wide if wide else a.gpu_share)
    nodes = 64 // a.node
    return [
        Machine(
            "this laptop, 2 cores",
            1,
            a.laptop_flop * a.laptop_share,
            a.laptop_gb,
            None,
            a.laptop_mb_per_s,
        ),
        Machine("1 H200", 1, gpu, a.gpu_gb, None, a.node_mb_per_s),
        Machine("8 H200", 8, gpu, a.gpu_gb, a.nvlink, a.node_mb_per_s),
        Machine("64 H200", 64, gpu, a.gpu_gb, a.network, a.node_mb_per_s * nodes),
    ]


def word_model(a: Assumptions) -> Model:
    """The shape of word-50k with all the corpus's words, counted part by part."""
    costs = summary(untrained(dataclasses.replace(WORD_50K, vocab=a.vocabulary)))
    return Model(
        f"word-50k, {a.vocabulary:,} words",
        costs["parameters"],
        costs["training_flop_per_token"],
        False,
    )


def grown_model(a: Assumptions, tokens: float) -> Model:
    """As many parameters as the tokens are enough for."""
    parameters = tokens / a.tokens_per_parameter
    return Model(f"{_short(parameters)} parameters", parameters, 6 * parameters, parameters > 1e9)


def epoch(a: Assumptions, model: Model, machine: Machine, tokens: float) -> tuple[float, str]:
    """(seconds of one epoch, what limits it): operations, or sending the gradients through the ring.

    A ring of N devices sends 2 (N - 1) / N of the gradients through each link per step (Patarasuk and Yuan 2009), here
    not hidden by the backward pass: an upper bound.
    """
    work = tokens * model.flop / (machine.flop * machine.devices)
    if machine.link is None:
        return work, "operations"
    steps = tokens / (a.tokens_per_step * machine.devices)
    ring = (
        2
        * (machine.devices - 1)
        / machine.devices
        * model.parameters
        * a.gradient_bytes
        / machine.link
    )
    sent = steps * ring
    return work + sent, "operations" if work >= sent else "gradients sent"


def _duration(seconds: float) -> str:
    for unit, size in (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{record.number(seconds / size)} {unit}"
    return f"{record.number(seconds)} s"


def _short(value: float) -> str:
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{record.number(value / size)} {letter}"
    return record.number(value)


def _memory(a: Assumptions, model: Model, machine: Machine) -> str:
    """Training state per device; sharded over all of them if one cannot hold it."""
    whole = model.parameters * a.bytes_per_parameter
    shown = f"{_short(whole)}B"
    if whole <= 0.8e9 * machine.memory_gb:
        return shown
    if whole / machine.devices <= 0.8e9 * machine.memory_gb:
        return f"{_short(whole / machine.devices)}B, sharded"
    return f"{shown}: does not fit"


def rows(a: Assumptions) -> Iterator[str]:
    """The table's lines."""
    for scale in SCALES:
        size = a.corpus_gb * 1e9 * scale
        tokens = size / a.bytes_per_token
        for model in (word_model(a), grown_model(a, tokens)):
            for machine in machines(a, model.wide):
                seconds, limit = epoch(a, model, machine, tokens)
                memory, taken = _memory(a, model, machine), _duration(seconds)
                if memory.endswith("fit"):
                    taken, limit = "–", "memory"
                cells = [
                    f"{scale:,} x: {_short(tokens)} tokens", model.name, machine.name,
                    _duration(size / 1e6 / machine.mb_per_s), f"{_short(2 * tokens)}B", memory, taken, limit,
                ]  # fmt: skip
                yield f"| {' | '.join(cells)} |"


def table(a: Assumptions) -> str:
    """Table and assumptions as Markdown."""
    assumed = [
        f"`--{field.name.replace('_', '-')} {getattr(a, field.name):g}`"
        for field in dataclasses.fields(a)
    ]
    return "\n".join([*HEAD, *rows(a), "", f"Assumptions: {', '.join(assumed)}."])


def main() -> None:
    parser = Parser(prog="python -m tinylm.benchmarks.planning", description=__doc__)
    for field in dataclasses.fields(Assumptions):
        kind = int if field.type is int else float
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(
            name, type=kind, default=field.default, help=f"{field.metadata['help']} (%(default)s)"
        )
    const = Path("docs/reference/benchmarks.md")
    parser.add_argument("--write", type=Path, nargs="?", const=const, help="into this page")
    given = vars(parser.parse_args())
    page = given.pop("write")
    if page is not None:
        record.check_marks(output_file("write", page), record.PLAN)
    for name, value in given.items():
        most = MOST.get(name, 1e21)
        if not 0 < value <= most:
            shown = value if isinstance(value, int) else f"{value:g}"
            raise InputError(
                f"--{name.replace('_', '-')} {shown}; allowed: a number > 0, at most {most:,g}"
            )
    text = table(Assumptions(**given))
    print(text)
    if page is not None:
        record.put(page, record.PLAN, text)


if __name__ == "__main__":
    sys.exit(guard(main))

"""Lines `company` and `company_decoding`: training, and one prompt, beside 0, 1 and 2 busy processes."""

import contextlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tinylm.benchmarks import decoding, training
from tinylm.benchmarks.interleaved import Trials, rates, trials
from tinylm.benchmarks.options import Entry, Options
from tinylm.benchmarks.record import Row, best

BESIDE = (0, 1, 2)
UNIT = "tokens/s"
# It ends with the process that started it, however that ends.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass"


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that each use a core as much as they are let, while inside."""
    with contextlib.ExitStack() as stack:
        for _ in range(processes):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _BUSY]))
            stack.callback(process.kill)
        yield


def _beside(
    options: Options, entries: Mapping[str, Entry], **request: Any
) -> dict[int, dict[str, dict[str, float]]]:
    """Rates of all contenders beside each number of busy processes, all in interleaved trials."""
    answers: dict[int, Trials] = {count: defaultdict(list) for count in BESIDE}
    with options.contenders(entries) as contenders:
        trials(contenders, 0, **request)  # to warm up
        for _ in range(options.trials):
            for count in BESIDE:
                with busy(count):
                    for name, made in trials(contenders, 1, warm_up=0, **request).items():
                        answers[count][name] += made
    found = {count: rates(made) for count, made in answers.items()}
    for count, rate in found.items():
        for name, figures in rate.items():
            share = figures["median"] / found[0][name]["median"]
            print(
                f"beside {count}: {name}: {figures['median']:,.0f} {UNIT}, {share:.2f} of quiet",
                flush=True,
            )
    return found


def _rows(
    what: str,
    found: Mapping[int, Mapping[str, Mapping[str, float]]],
    mine: str,
    peers: tuple[str, ...],
    **goal: Any,
) -> list[Row]:
    """Our rate beside each number of busy processes, as a share of our own beside none, and each peer's beside it."""
    rows = []
    for count in BESIDE[1:]:
        ours, quiet = found[count][mine], found[0][mine]
        told = f"{what} beside {count} busy process{'es' * (count > 1)}, share of quiet"
        aim = goal if count == 1 else {}
        known = [name for prefix in peers if (name := best(found[0], prefix))]
        shares = [
            f"{name}: {found[count][name]['median'] / found[0][name]['median']:.2f}"
            for name in known
        ]
        peer = found[count][known[0]] if known else None
        share = ours["median"] / quiet["median"]
        name = known[0] if known else ""
        rows.append(Row(told, UNIT, ours, peer, name, share, note="; ".join(shares), **aim))
    return rows


def company(options: Options) -> list[Row]:
    """Training beside 0, 1 and 2 busy processes: tokens/s, and the share of quiet that is left."""
    learn = training.entries(options)
    learn.pop("word-50k")
    found = _beside(options, learn, updates=training.UPDATES[options.size])
    peers = ("nanoGPT bf16+compile", "nanoGPT fp32", training.GPT2)
    return _rows("training", found, "tinylm", peers, must=0.6, stretch=0.7)


def company_decoding(options: Options) -> list[Row]:
    """The same of sampling after one prompt."""
    rows: list[Row] = []
    speak = decoding.entries(options, [1]) | decoding.llama_cpp(options, 1)
    wanted = (
        "tinylm fp32",
        "tinylm int8",
        "transformers",
        "CTranslate2",
        "llama.cpp f32",
        "llama.cpp q8_0",
    )
    speak = {name: entry for name, entry in speak.items() if name.startswith(wanted)}
    found = _beside(options, speak, method="sample", alone=decoding.ALONE[options.size])
    for mine, equal in (("tinylm fp32", ("llama.cpp f32", "CTranslate2 fp32", "transformers")),
                        ("tinylm int8", ("llama.cpp q8_0", "CTranslate2 int8"))):  # fmt: skip
        rows += _rows(f"one prompt ({mine})", found, mine, equal)
    return rows

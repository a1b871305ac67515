"""Decoding the same weights in fp32, compared with CTranslate2 and llama.cpp: the lines `one_prompt` and
`twenty_prompts`."""

from collections.abc import Mapping
from typing import Any

from benchmarks.checkpoint import PROMPTS, checkpoint
from benchmarks.contenders import decoding, llamacpp
from benchmarks.frame import (
    Contender,
    Entry,
    Options,
    Row,
    Spread,
    compared,
    fastest,
    prepared,
    rates,
    trials,
)

ALONE = 4  # prompts of a trial of line `one_prompt`, each decoded by itself
BEAM = 5
PEERS = ("CTranslate2", "llama.cpp")


def entries(options: Options, sequences: int) -> dict[str, Entry]:
    """tinylm, its plain step and the peers on all cores; tinylm and llama.cpp on one core, too."""
    made = checkpoint(options) | {"sequences": sequences, "threads": options.threads}
    contenders = {}
    for cores in sorted({1, options.threads}):
        on = f"{cores} core{'s' if cores > 1 else ''}"
        setup = made | {"threads": cores}
        contenders[f"tinylm, {on}"] = Entry(decoding.ours, setup | {"step": "auto"})
        contenders[f"llama.cpp, {on}"] = Entry(llamacpp.make, setup, needs="llama-cpp-python")
    contenders["plain step"] = Entry(decoding.ours, made | {"step": "plain"})
    for workers in sorted({1, min(sequences, options.threads)}):
        name = f"CTranslate2, {workers} worker{'s' if workers > 1 else ''}"
        setup = made | {"workers": workers}
        contenders[name] = Entry(decoding.ctranslate2, setup, needs="ctranslate2")
    return contenders


def measure(
    contenders: Mapping[str, Contender], options: Options, method: str | int, alone: int | None
) -> dict[str, Spread]:
    """Tokens per second of each contender that has the method. method: sample | greedy | the width of a beam."""
    able = {
        name: contender
        for name, contender in contenders.items()
        if isinstance(method, str) or not name.startswith("llama.cpp")
    }
    return rates(trials(able, options.trials, method=method, alone=alone))


def rows_of(what: str, rate: Mapping[str, Spread], threads: int) -> list[Row]:
    """Our rate compared with each peer's fastest, and on one core with llama.cpp's."""
    ours = fastest(rate, "tinylm")
    rows: list[Row] = []
    if threads > 1:
        peer = "llama.cpp, 1 core"
        rows += compared(f"{what}, one core", rate, "tinylm, 1 core", peer)
    for peer in PEERS:
        rows += compared(what, rate, ours, fastest(rate, peer))
    plain = Row(f"{what}, plain step", "tokens/s", rate["plain step"])
    return [*rows, plain]


def _line(options: Options, methods: Mapping[str, Any], sequences: int) -> list[Row]:
    alone = None
    if sequences == 1:
        alone = 1 if options.tiny else ALONE
    rows: list[Row] = []
    with prepared(entries(options, sequences)) as contenders:
        for what, method in methods.items():
            rate = measure(contenders, options, method, alone)
            rows += rows_of(what, rate, options.threads)
    return rows


def one_prompt(options: Options) -> list[Row]:
    """One prompt at a time: sampling, and beam search of width 5."""
    return _line(options, {"one prompt, sampling": "sample", "one prompt, beam 5": BEAM}, 1)


def twenty_prompts(options: Options) -> list[Row]:
    """20 prompts at once: greedy decoding, and beam search of width 5."""
    methods = {"20 prompts, greedy": "greedy", "20 prompts, beam 5": BEAM}
    return _line(options, methods, PROMPTS)

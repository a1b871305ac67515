"""What the lines `one_prompt` and `twenty_prompts` share: sides over one model, turns, shares of changed tokens."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tinylm.benchmarks.checkpoint import Speaker
from tinylm.benchmarks.contenders.our_decoding import MODES
from tinylm.benchmarks.interleaved import Side, in_turn, rates, spread
from tinylm.benchmarks.options import Options
from tinylm.benchmarks.record import Row, against

Rates = Mapping[str, Mapping[str, float]]


def our_sides(options: Options, asked: dict[str, Any]) -> dict[str, Side]:
    return {f"tinylm {mode}": options.side("tinylm", "our_decoding:make", asked | {"mode": mode}) for mode in MODES}


def ct2_sides(options: Options, asked: dict[str, Any], workers: Sequence[int]) -> dict[str, Side]:
    """CTranslate2 in both precisions, with so many workers each."""
    found: dict[str, Side] = {}
    for quantization in (None, "int8") if options.has("ctranslate2") else ():
        for number in workers:
            name = f"CTranslate2 {quantization or 'fp32'}" + (f", {number} workers" if number > 1 else "")
            more = {"quantization": quantization, "workers": number}
            found[name] = options.side(name, "peer_decoding:ct2", asked | more, peer=True)
    return found


def asked_of(made: Speaker) -> dict[str, Any]:
    """The set-up that all sides over the prepared model share."""
    return {
        "models": made.models, "export": made.export, "vocab": made.vocab, "prompts": made.prompts,
        "new_tokens": made.new_tokens,
    }  # fmt: skip


@dataclasses.dataclass
class Table:
    """Sides and what each gave, by method."""

    options: Options
    sides: dict[str, Side]
    alone: int | None  # prompts of a turn, one at a time; None: all at once
    ids: dict[str, list[list[int]]] = dataclasses.field(default_factory=dict)

    def measure(self, method: str | int, only: Sequence[str] = ()) -> dict[str, dict[str, float]]:
        """Tokens a second of every side (whose name begins with one of `only`), in turn."""
        asked: dict[str, Any] = {"method": method} | ({} if self.alone is None else {"alone": self.alone})
        names = [name for name in self.sides if not only or name.startswith(tuple(only))]
        found = in_turn({name: functools.partial(self.sides[name].turn, **asked) for name in names}, self.options.turns)
        if method == "greedy":
            self.ids |= {name: turns[-1]["ids"] for name, turns in found.items()}
        for name, turns in found.items():
            print(f"{method} {name}: {spread(rates(turns))['median']:,.0f} tokens/s", flush=True)
        return {name: spread(rates(turns)) for name, turns in found.items()}

    def changed(self, name: str) -> str:
        """Which share of the greedy tokens differs from our fp32, up to each text's first difference included."""
        mine, theirs = self.ids.get("tinylm fp32"), self.ids.get(name)
        if not mine or not theirs or name == "tinylm fp32":
            return ""
        share = sum(a != b for one, other in zip(mine, theirs) for a, b in zip(one, other)) / sum(map(len, mine))
        return f"{share:.2%} of greedy tokens changed ({name})"


def best(found: Rates, prefix: str) -> str:
    """The fastest side whose name begins so; "" where none does."""
    names = (name for name in found if name.startswith(prefix))
    return max(names, key=lambda name: found[name]["median"], default="")


def row(what: str, found: Rates, prefix: str, **goal: Any) -> list[Row]:
    """Our fastest side against the fastest of a peer's; nothing where the peer was not measured."""
    mine, peer = best(found, "tinylm"), best(found, prefix)
    return [against(f"{what} ({mine})", "tokens/s", found[mine], found[peer], peer, **goal)] if peer else []


def transformers_side(options: Options, asked: dict[str, Any]) -> dict[str, Side]:
    if not options.has("transformers"):
        return {}
    return {"transformers": options.side("transformers", "peer_decoding:transformers", asked, peer=True)}


@contextlib.contextmanager
def opened(sides: dict[str, Side]) -> Iterator[None]:
    """Close the sides at the end."""
    with contextlib.ExitStack() as stack:
        for side in sides.values():
            stack.enter_context(side)
        yield

"""Each part of a model run on a small input: expected output beside actual output."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.model.ragged_heads import head_widths
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, SelfAttention, TinyLM, causal_mask

LENGTH = 10  # of the decoder's input, if the context is that long
ROWS = 3  # of the tables that are checked


@dataclasses.dataclass(frozen=True)
class Check:
    """One line: what was run on which input, the expected and the actual output."""

    what: str
    given: str
    expected: str
    found: str

    @property
    def ok(self) -> bool:
        """Whether the actual output is the expected one."""
        return self.expected == self.found


def _run(
    what: str, given: str, expected: tuple[int, ...] | str, call: Callable[[], Tensor | str]
) -> Check:
    """A check of the shape or the words that `call` gives; if the part raises an error, that is the actual output."""
    try:
        found = call()
        text = found if isinstance(found, str) else str(tuple(found.shape))
    except (RuntimeError, ValueError, IndexError) as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return Check(what, given, str(expected), text)


def _near(one: Tensor, other: Tensor) -> str:
    return (
        "equal"
        if torch.allclose(one, other, rtol=1e-4, atol=1e-5)
        else f"off by {(one - other).abs().max():.2g}"
    )


def _first(model: TinyLM) -> Block:
    block = model.blocks[0]
    assert isinstance(block, Block)
    return block


def _mask(length: int) -> Tensor:
    places = torch.arange(length)
    return causal_mask(places[None], places, torch.float32)


def _embedding(model: TinyLM) -> Iterator[Check]:
    count, width = min(ROWS, model.vocab_size), model.width
    ids, table = torch.arange(count), f"{model.vocab_size} x {width}"
    given = f"tokens 0-{count - 1} of {table}"
    yield _run("embedding", given, (count, width), lambda: model.vectors(ids))
    rows = model.embedding[:count] * model.embedding_scale
    yield _run("embedding rows", given, "equal", lambda: _near(model.vectors(ids), rows))


def _positions(model: TinyLM) -> Iterator[Check]:
    kind, width, table = model.settings.positions, model.width, model.positions
    if table is None:
        yield Check("positions", kind, "none", kind)
        return
    yield _run("positions", kind, (model.settings.context, width), lambda: table)
    if kind != "sinusoids":
        return
    for place in (0, 1):
        angles = [place / 10000 ** ((column - column % 2) / width) for column in range(width)]
        row = torch.tensor(
            [
                math.cos(angle) if column % 2 else math.sin(angle)
                for column, angle in enumerate(angles)
            ]
        )
        yield _run(
            f"positions, row {place}",
            f"sin {place}, cos {place}, ...",
            "equal",
            partial(_near, table[place], row),
        )


def _attention(attention: SelfAttention, width: int, length: int) -> Iterator[Check]:
    """On zeros all keys are equal: each position spreads its weight evenly over itself and earlier positions."""
    given = 2, length, width
    maps: list[Tensor] = []
    yield _run(
        "attention",
        f"zeros {given}",
        given,
        lambda: attention(torch.zeros(given), _mask(length), maps=maps),
    )
    yield _run("attention weights", "", (2, attention.heads, length, length), lambda: maps[0])
    even = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    yield _run(
        "attention weights",
        "1 / (t + 1), 0 later",
        "equal",
        lambda: _near(maps[0], even.expand_as(maps[0])),
    )


def _heads(model: TinyLM, length: int) -> Iterator[Check]:
    attention = _first(model).attention
    given, heads, inner = (32, length, model.width), attention.heads, attention.inner
    x = torch.randn(given)
    yield _run(
        "split into heads",
        str(given),
        (32, length, heads, -(-inner // heads)),  # of the widest head
        lambda: attention.project(x)[:, :, 0],
    )

    def joined() -> str:
        bias = attention.qkv.bias
        whole = F.linear(x, attention.qkv.weight[:inner], None if bias is None else bias[:inner])
        queries, widths = attention.project(x)[:, :, 0], head_widths(inner, heads)
        return _near(
            torch.cat([queries[:, :, head, :own] for head, own in enumerate(widths)], -1), whole
        )

    yield _run("heads joined again", "", "equal", joined)


def _decoder(model: TinyLM, length: int) -> Iterator[Check]:
    rows = 32, min(4, length), model.width
    yield _run("block", str(rows), rows, lambda: _first(model)(torch.randn(rows), _mask(rows[1])))
    ids = torch.randint(model.vocab_size, (2, length))
    what = f"decoder of {len(model.blocks)} layers"
    yield _run(what, f"ids {tuple(ids.shape)}", (2, length, model.width), lambda: model.hidden(ids))
    yield _run("logits", "", (2, length, model.vocab_size), lambda: model(ids))

    def future() -> str:
        other = ids.clone()
        other[:, -1] = (other[:, -1] + 1) % model.vocab_size
        return _near(model.hidden(ids)[:, :-1], model.hidden(other)[:, :-1])

    yield _run("all but the last state", "another last token", "equal", future)


@torch.no_grad()
def check_parts(model: TinyLM, attention: SelfAttention | None = None) -> list[Check]:
    """Run every part of a model; `attention` replaces the first block's, to test another width."""
    length = min(LENGTH, model.settings.context)
    alone = _first(model).attention if attention is None else attention
    return [
        *_embedding(model),
        *_positions(model),
        *_attention(alone, alone.qkv.in_features, length),
        *_heads(model, length),
        *_decoder(model, length),
    ]


def expected_parameters(settings: ModelSettings, vocab_size: int, width: int) -> dict[str, int]:
    """Parameters by part, from the settings alone."""
    inner = width if settings.head_width is None else settings.heads * settings.head_width
    norm = width * (1 if settings.norm_kind == "rms" else 2)
    attention = 4 * width * inner + 3 * inner * settings.qkv_bias + width * settings.attention_bias
    wide = settings.feed_forward
    feed_forward = 2 * width * wide + (wide + width) * settings.feed_forward_bias
    return {
        "embedding": vocab_size * width
        + settings.context * width * (settings.positions == "learned"),
        "blocks": settings.layers * (attention + feed_forward + 2 * norm),
        "final norm": norm * settings.final_norm,
        "output": vocab_size * (width * (not settings.tied_output) + settings.output_bias),
    }


def check_parameters(model: TinyLM) -> list[Check]:
    """Parameters by part computed from the settings, beside those of the model's tensors."""
    places = {"positions": "embedding", "final_norm": "final norm", "output_bias": "output"}
    expected = expected_parameters(model.settings, model.vocab_size, model.width)
    found = dict.fromkeys(expected, 0)
    for name, parameter in model.named_parameters():
        top = name.partition(".")[0]
        found[places.get(top, top)] += parameter.numel()
    for counts in (expected, found):
        counts["all"] = sum(counts.values())
    return [
        Check(part, "parameters", f"{count:,}", f"{found[part]:,}")
        for part, count in expected.items()
    ]

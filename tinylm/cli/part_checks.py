"""tinylm describe --check: every part run at published sizes and at those of params.yaml, printed as tables."""

import dataclasses
from collections.abc import Iterator

from tinylm.base.config import InputError
from tinylm.bench.parts import ROWS, Check, check_parameters, check_parts, expected_parameters
from tinylm.host.command import CommandFailed
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import SelfAttention, TinyLM

# The sizes at which coding report (D) prints its checks: 100 words of width 512, 8 heads, attention alone at width 16.
PUBLISHED = ModelSettings(
    layers=6,
    heads=8,
    head_width=None,
    feed_forward=2048,
    context=64,
    dropout=0.2,
    norm="post",
    norm_kind="layer",
    norm_eps=1e-5,
    final_norm=True,
    positions="sinusoids",
    activation="relu",
    init="torch",
    qkv_bias=False,
    attention_bias=True,
    feed_forward_bias=True,
    tied_output=False,
    output_bias=True,
    embedding="tuned",
)
PUBLISHED_WORDS, PUBLISHED_WIDTH, PUBLISHED_ATTENTION = 100, 512, (16, 4)
COLUMNS = 4  # how many are shown


def _values(model: TinyLM) -> Iterator[str]:
    """The first rows and columns of embedding and positions."""
    import torch

    tables = {
        "embedding": model.vectors(torch.arange(min(ROWS, model.vocab_size))),
        "positions": model.positions,
    }
    for name, table in tables.items():
        for row, values in enumerate([] if table is None else table[:ROWS, :COLUMNS].tolist()):
            yield (
                f"  {name + f', row {row}':22}"
                + "".join(f"{value:9.4f}" for value in values)
                + "  ..."
            )


def _table(checks: list[Check]) -> str:
    widths = [
        max(len(getattr(check, key)) for check in checks)
        for key in ("what", "given", "expected", "found")
    ]
    lines = []
    for check in checks:
        cells = (check.what, check.given, check.expected, check.found)
        aligned = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"  {'  '.join(aligned)}  {'ok' if check.ok else 'WRONG'}")
    return "\n".join(lines)


def _two_layers(settings: ModelSettings, vocab_size: int, width: int) -> TinyLM:
    """A decoder of two layers over random vectors. Raises InputError if the memory is too small for it."""
    import psutil
    import torch

    settings = dataclasses.replace(settings, layers=2)
    numbers = (
        2 * sum(expected_parameters(settings, vocab_size, width).values())
        + 8 * settings.context * width
    )
    available = psutil.virtual_memory().available
    if 4 * numbers > available:
        raise InputError(
            f"--check runs the model: {4 * numbers / 2**30:.1f} GiB needed, {available / 2**30:.1f} free; "
            "give a smaller --vocab-size or --width"
        )
    return TinyLM(settings, torch.randn(vocab_size, width)).eval()


def run(blank: TinyLM) -> None:
    """Print all checks, at the published sizes and at those of a blank model; CommandFailed if one fails."""
    import torch

    torch.manual_seed(1)
    published = _two_layers(PUBLISHED, PUBLISHED_WORDS, PUBLISHED_WIDTH)
    alone = SelfAttention(PUBLISHED_ATTENTION[0], *PUBLISHED_ATTENTION, bias=False)
    own = _two_layers(blank.settings, blank.vocab_size, blank.width)
    every: list[Check] = []
    for title, model, attention in (
        ("sizes of coding report (D)", published, alone),
        ("sizes of params.yaml", own, None),
    ):
        checks = check_parts(model, attention)
        print(f"\n{title}: input, expected, found\n{_table(checks)}", *_values(model), sep="\n")
        every += checks
    counts = check_parameters(blank)
    print(
        f"\nparameters by part: counted from the settings, found in the tensors\n{_table(counts)}"
    )
    wrong = sum(not check.ok for check in [*every, *counts])
    if wrong:
        raise CommandFailed(
            f"{wrong} of {len(every) + len(counts)} checks went wrong, marked above"
        )

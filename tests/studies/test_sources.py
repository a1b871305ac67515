"""Every number of a published system stands in a line that its source prints, as the record quotes it."""

import re

import pytest

from studies.records import SYSTEMS, published

NUMBER = re.compile(r"(?:\d+(?:,\d{3})+|\d*\.?\d+)(?:e-?\d+)?")


def numbers(line):
    """All numbers of a line, without signs; those before % as shares too."""
    line = re.sub(r"\s*(?:×|\\times)\s*10\^\{(-\d+)\}|\\text\{e(-)\}", r"e\1\2", line)
    found = [float(match.replace(",", "")) for match in NUMBER.findall(line)]
    shares = [float(share) / 100 for share in re.findall(r"([\d.]+)%", line)]
    return found + shares


def stands(value, line):
    """Whether a line has the number, or one that rounds to it."""
    decimals = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 12
    slack = 0.501 * 10**-decimals if isinstance(value, float) else 0
    return any(abs(printed - abs(value)) <= slack for printed in numbers(line))


def missing(node, lines, place):
    """Places of numbers that stand in no line; those of a row of a table must stand in one."""
    if isinstance(node, dict):
        return [m for key, part in node.items() for m in missing(part, lines, f"{place}/{key}")]
    if isinstance(node, list):
        wrong = []
        for row, part in enumerate(node):
            per_line = [missing(part, [line], f"{place}/{row}") for line in lines or [""]]
            wrong += min(per_line, key=len)
        return wrong
    is_number = isinstance(node, int | float) and not isinstance(node, bool)
    return [place] if is_number and not any(stands(node, line) for line in lines) else []


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_number_stands_in_a_printed_line(system):
    parts = dict(published()[system])
    lines = parts.pop("printed")
    parts.pop("checked", None)
    assert set(lines) <= set(parts)
    for name, part in parts.items():
        assert missing(part, lines.get(name, []), name) == []

"""Reads the rules of all plots into one book: `name:`, then one phrase per line; indented lines continue it."""

from __future__ import annotations

from tinylm.storybook.plots import friends, home, journeys, lost, making, shared, wild


def _read(text: str) -> dict[str, list[str]]:
    rules: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.endswith(":") and " " not in line:
            if line[:-1] in rules:
                raise ValueError(f"rule {line[:-1]} is written twice")
            lines = rules[line[:-1]] = []
        elif line.startswith("  "):
            lines[-1] += " " + line.strip()
        elif line:
            lines.append(line)
    return rules


_PARTS = (shared, lost, friends, home, journeys, making, wild)
RULES: dict[str, list[str]] = _read("\n".join(part.RULES for part in _PARTS))
RULES["plot"] = [f"{weight}| <{name}>" for part in _PARTS for name, weight in part.PLOTS.items()]

"""`make pages`, first part: writes generated pages, the notebook, the lab of real stories, tables of the default run.

A test compares all but the tables with what the code gives. The tables need a finished run in this folder, and stay as
they are without one.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studies import answers
from tests.lab import recorded
from tests.neighbours import page as neighbours
from tests.support import reference
from tests.support.clone import ROOT
from tests.support.literate import BLOCK, STORY, printed_by
from tinylm.base.command import run_command
from tinylm.base.files import write_bytes

EVALUATION = "data/figures/evaluate.json"
# A notebook starts in its own folder, or in Google Colab in a folder without tinylm; the code of the page runs in the root
# of the repository, after stage train.
TO_ROOT = """import os, subprocess, sys

if "COLAB_RELEASE_TAG" in os.environ:  # Google Colab: get tinylm and train its model, in about 15 minutes
    if not os.path.exists("tinylm"):
        subprocess.run(["git", "clone", "--depth=1", "https://github.com/OWNER/tinylm"], check=True)
    os.chdir("tinylm")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-e", "."], check=True)
    subprocess.run([sys.executable, "-m", "dvc", "repro", "train"], check=True)
while not os.path.exists("params.yaml"):
    os.chdir("..")

"""


def _cell(kind: str, number: int, text: str, printed: str = "") -> dict[str, Any]:
    lines = text.strip().splitlines(keepends=True)
    cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    if kind == "code":
        stream = {"output_type": "stream", "name": "stdout"}
        outputs = [stream | {"text": printed.splitlines(keepends=True)}] if printed else []
        cell |= {"execution_count": None, "outputs": outputs}
    return cell


def notebook() -> str:
    """The page `One story through the model` as a notebook: its code, with the outputs that the page shows."""
    page = STORY.read_text("utf-8")
    cells: list[dict[str, Any]] = []
    before, end = TO_ROOT, 0
    for block in BLOCK.finditer(page):
        cells.append(_cell("markdown", len(cells), page[end : block.start()]))
        cells.append(_cell("code", len(cells), before + block[1], printed_by(block)))
        before, end = "", block.end()
    cells.append(_cell("markdown", len(cells), page[end:]))
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1)


def assignment_answers() -> str:
    """The questions of the assignment with the answers of the recorded run."""
    title, _, text = answers.page().partition("\n\n")
    return f"{title}\n\n{reference.MARK}\n\n{text}"


GENERATED: dict[str, Callable[[], str]] = {
    "docs/reference/parameters.md": reference.parameters,
    "docs/reference/commands.md": reference.commands,
    "docs/reference/python.md": reference.python,
    "docs/reference/neighbours.md": neighbours.page,
    "docs/reference/assignment-answers.md": assignment_answers,
    "docs/tutorial/one-story.ipynb": notebook,
}


def _read(path: str) -> Any:
    return json.loads((ROOT / path).read_text("utf-8"))


def _interval(value: dict[str, float], scale: float, form: str) -> str:
    """A value with its interval, such as `98 (96 to 99)`."""
    value, low, high = (format(scale * value[name], form) for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def headline() -> list[str]:
    """README's table: what the default run reached, with the baselines, its speed and its size."""
    run, train = _read(EVALUATION), _read("data/times/train.json")
    weights = (ROOT / "models/model.safetensors").stat().st_size / 1e6
    low, high = run["perplexity_interval"]
    baselines = run["baselines"]
    words = run["sense"]["words"]["value"]
    cached = [row for row in _read("data/times/kv_bench.json")["settings"] if row["cache"]]
    batch = _read("data/figures/kv_bench.json")["batch"]
    parameters = _read("data/figures/train.json")["parameters"] / 1e6
    return [
        "| measured | value |",
        "|---|---|",
        f"| evaluation perplexity | **{run['perplexity']:.2f}** ({low:.2f} to {high:.2f}) |",
        f"| the best possible: the generator's own | {baselines['floor']['perplexity']:.2f} |",
        f"| Kneser-Ney, order 5 | {baselines['kneser_ney']['perplexity']:.1f} |",
        f"| unigram | {baselines['unigram']['perplexity']:.0f} |",
        f"| length of a sampled story until its first mistake, in words | {words:.0f} |",
        f"| training | {train['train_s']:.0f} s, {train['tokens_per_s']:,.0f} tokens/s |",
        f"| greedy decoding, {batch} texts at once | {cached[-1]['tokens_per_s']:,.0f} tokens/s |",
        f"| size | {parameters:.2f} M parameters, {weights:.1f} MB |",
    ]


def sense() -> list[str]:
    """How much of the sampled stories the generator could have written."""
    found = _read(EVALUATION)["sense"]
    return [
        "| sampled stories | value |",
        "|---|---|",
        f"| possible from beginning to end | {_interval(found['possible'], 100, '.0f')} % |",
        f"| words up to and including the first impossible one | {_interval(found['words'], 1, '.0f')} |",
    ]


MEASURED: dict[tuple[str, str], Callable[[], list[str]]] = {
    ("README.md", "headline"): headline,
    ("docs/reference/results.md", "sense"): sense,
}


def with_block(page: str, name: str, lines: list[str]) -> str:
    """The page with these lines between the markers of a name."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    new, count = re.subn(
        pattern, lambda m: "\n".join([m[1], *lines, "", m[2]]), page, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"{count} blocks {name}")
    return new


def main() -> None:
    for name, text in GENERATED.items():
        write_bytes(ROOT / name, (text().rstrip() + "\n").encode())
    write_bytes(recorded.PAGE, recorded.page_of_today())
    if not (ROOT / EVALUATION).exists():
        return
    for (name, block), lines in MEASURED.items():
        path: Path = ROOT / name
        page = with_block(path.read_text("utf-8"), block, lines())
        write_bytes(path, page.encode())


if __name__ == "__main__":
    sys.exit(run_command(main))

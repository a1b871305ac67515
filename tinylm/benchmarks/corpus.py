"""A corpus of TinyStories' size: quotes mended, split, words counted and encoded by the stages download and vocab."""

import contextlib
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinylm.base.config import parse_yaml
from tinylm.base.files import atomic_folder, atomic_write
from tinylm.benchmarks.interleaved import ROOT, in_turn, rates, spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row
from tinylm.benchmarks.watched import watch
from tinylm.host.workers import cores
from tinylm.presets.write import BASE, preset_text
from tinylm.studies.synthetic_corpus import write_corpus

NAME = "corpus"
STORIES = {"full": (2_119_719, 21_990), "tiny": (60, 5)}  # train, validation
NEW_WORDS = {"as in TinyStories": 0.0, "one word in fifty new": 0.02}
SAMPLE_BYTES = 50_000_000
SIDES = {"re and dict, one core": "plain_python", "tokenizers": "tokenizers", "ftfy.fix_text": "ftfy"}


def synthetic(options: Options, new_words: float) -> Path:
    """The corpus's folder, written where it is not there yet."""
    folder = (options.work / f"standin-{options.size}-{new_words:g}").absolute()
    if not folder.exists():
        with atomic_folder(folder) as new:
            write_corpus(new, *STORIES[options.size], new_words, 1, cores())
    return folder


def pipeline(folder: Path, data: Path, threads: int) -> None:
    """A folder in which stages run: params.yaml of the complete preset over this corpus, vectors that cost nothing."""
    params = parse_yaml(preset_text(BASE), BASE)
    own: dict[str, dict[str, Any]] = {
        "data": {"source": "local", "path": str(data), "train_stories": None, "evaluation_stories": None},
        "vocab": {"max_size": 50_000},
        "embedding": {"source": "random", "width": 8, "path": str(ROOT / "tinylm/text/skipgram.py")},
        "model": {"heads": 1},
        "runtime": {"threads": threads},
    }
    params["vocab"]["path"] = str(ROOT / "tinylm/text/tokens/gpt2.py")
    for section, changes in own.items():
        params[section] |= changes
    with atomic_write(folder / "params.yaml") as handle:
        handle.write(json.dumps(params))


def _stages(options: Options, data: Path) -> dict[str, tuple[float, float]]:
    """(seconds, peak MiB) of each stage, from its command to its end."""
    found = {}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        pipeline(Path(work), data, options.threads)
        for stage in ("download", "vocab"):
            code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['stages.{stage}']; "
            code += f"import runpy; runpy.run_module('stages.{stage}', run_name='__main__')"
            found[stage] = watch([sys.executable, "-c", code], Path(work))
            print(f"{stage}: {found[stage][0]:.1f} s, {found[stage][1]:,.0f} MiB", flush=True)
    return found


def _rows(kind: str, size_mb: float, found: Mapping[str, tuple[float, float]]) -> list[Row]:
    seconds = sum(time for time, _ in found.values())
    peak = max(mib for _, mib in found.values())
    each = ", ".join(f"{name} {time:.1f} s" for name, (time, _) in found.items())
    what = f"{size_mb:,.0f} MB, words {kind}"
    return [
        Row(f"{what}: text to ids, quotes mended", "s", spread([seconds]), figure=seconds, figure_unit="s", must=60,
            stretch=40, higher=False, note=f"{each}; start-ups included"),
        Row(f"{what}: counted and encoded (stage vocab)", "s", spread([found["vocab"][0]])),
        Row(f"{what}: largest size of all processes together", "MiB", spread([peak]), figure=peak, figure_unit="MiB",
            must=1000, higher=False),
    ]  # fmt: skip


def _peers(options: Options, data: Path, rate: float) -> list[Row]:
    """The peers on a sample of the same text, in turn, in MB a second."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        sample = Path(folder) / "sample.txt"
        with open(data / "train.txt", encoding="utf-8") as old, atomic_write(sample) as new:
            size = itertools.accumulate(len(line) for line in old)
            old_lines = sum(1 for total in size if total <= SAMPLE_BYTES)
            old.seek(0)
            new.writelines(itertools.islice(old, old_lines))
        setup = {"path": str(sample)}
        sides = {
            name: options.side(name, f"texts:{target}", setup, peer=True)
            for name, target in SIDES.items()
            if target == "plain_python" or options.has(target)
        }
        sides["tinylm clean_text"] = options.side("tinylm", "texts:our_cleaning", setup)
        for side in sides.values():
            stack.enter_context(side)
        turns = in_turn({name: side.turn for name, side in sides.items()}, min(options.turns, 3), 0)
    found = {name: spread(rates(side, "mb")) for name, side in turns.items()}
    ours = spread([rate])
    rows = [
        Row(
            "text to ids, against words counted and encoded by",
            "MB/s",
            ours,
            found[name],
            name,
            rate / found[name]["median"],
        )
        for name in list(SIDES)[:2]
        if name in found
    ]
    mine, theirs = found["tinylm clean_text"], found.get("ftfy.fix_text")
    if theirs is None:
        return [*rows, Row("quotes mended, one core", "MB/s", mine)]
    rows.append(
        Row("quotes mended, one core", "MB/s", mine, theirs, "ftfy.fix_text", mine["median"] / theirs["median"])
    )
    return rows


def run(options: Options) -> list[Row]:
    """A corpus of 2.1 M stories, 1.9 GB: quotes mended, words counted and encoded; also where new words never stop."""
    rows: list[Row] = []
    rate = 0.0
    for kind, share in list(NEW_WORDS.items())[: 1 if options.tiny else None]:
        data = synthetic(options, share)
        size = (data / "train.txt").stat().st_size / 1e6
        found = _stages(options, data)
        rate = rate or size / sum(seconds for seconds, _ in found.values())
        rows += _rows(kind, size, found)
    return rows + _peers(options, synthetic(options, 0.0), rate)


if __name__ == "__main__":
    command(NAME, run)

"""A corpus of TinyStories' size: quotes mended, split, words counted and encoded by the stages download and vocab."""

import itertools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinylm.base.config import parse_yaml
from tinylm.base.files import atomic_folder, atomic_write
from tinylm.benchmarks.interleaved import ROOT, rates, spread, trials
from tinylm.benchmarks.options import Entry, Options
from tinylm.benchmarks.record import Row, against
from tinylm.benchmarks.watched import run_command
from tinylm.host.workers import cores
from tinylm.presets.write import BASE, preset_text
from tinylm.studies.synthetic_corpus import write_corpus

STORIES = {"full": (2_119_719, 21_990), "tiny": (60, 5)}  # train, validation
NEW_WORDS = {"words as in TinyStories": 0.0, "one word in fifty is new": 0.02}
SAMPLE_BYTES = 50_000_000
PEERS = {
    "re and dict, one core": ("plain_python", ""), "tokenizers": ("tokenizers", "tokenizers"),
    "ftfy.fix_text": ("ftfy", "ftfy"),
}  # fmt: skip


def synthetic(options: Options, new_words: float) -> Path:
    """The corpus's folder, written if it is not there yet."""
    folder = (options.work / f"standin-{options.size}-{new_words:g}").absolute()
    if not folder.exists():
        with atomic_folder(folder) as new:
            write_corpus(new, *STORIES[options.size], new_words, 1, cores())
    return folder


def pipeline(folder: Path, data: Path, threads: int) -> None:
    """Prepare a folder for stages: params.yaml of the complete preset over this corpus, vectors that cost nothing."""
    params = parse_yaml(preset_text(BASE), BASE)
    own: dict[str, dict[str, Any]] = {
        "data": {
            "source": "local",
            "path": str(data),
            "train_stories": None,
            "evaluation_stories": None,
        },
        "vocab": {"max_size": 50_000, "path": str(ROOT / "tinylm/vocab/gpt2.py")},
        "embedding": {
            "source": "random",
            "width": 8,
            "path": str(ROOT / "tinylm/embedding/skipgram.py"),
        },
        "model": {"heads": 1},
        "runtime": {"threads": threads},
    }
    with atomic_write(folder / "params.yaml") as handle:
        handle.write(
            json.dumps(params | {name: params[name] | changes for name, changes in own.items()})
        )


def _stages(options: Options, data: Path) -> dict[str, tuple[float, float]]:
    """(seconds, peak MiB) of each stage, from its command to its end."""
    measured = {}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        pipeline(Path(work), data, options.threads)
        for stage in ("download", "vocab"):
            measured[stage] = run_command(f"stages.{stage}", folder=Path(work), sampled=True)
            print(f"{stage}: {measured[stage][0]:.1f} s, {measured[stage][1]:,.0f} MiB", flush=True)
    return measured


def _rows(what: str, stages: Mapping[str, tuple[float, float]]) -> list[Row]:
    seconds, peak = sum(time for time, _ in stages.values()), max(mib for _, mib in stages.values())
    each = ", ".join(f"{name} {time:.1f} s" for name, (time, _) in stages.items())
    return [
        Row(f"{what}: text to ids, quotes mended", "s", spread([seconds]), figure=seconds, figure_unit="s", must=60,
            stretch=40, higher=False, note=f"{each}; start-ups included"),
        Row(f"{what}: counted and encoded (stage vocab)", "s", spread([stages["vocab"][0]])),
        Row(f"{what}: largest size of all processes together", "MiB", spread([peak]), figure=peak, figure_unit="MiB",
            must=1000, higher=False),
    ]  # fmt: skip


def _peers(options: Options, data: Path, rate: float) -> list[Row]:
    """The peers on a sample of the same text, in MB per second."""
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "sample.txt"
        with open(data / "train.txt", encoding="utf-8") as text, atomic_write(sample) as part:
            sizes = itertools.accumulate(map(len, text))
            lines = sum(1 for _ in itertools.takewhile(lambda size: size <= SAMPLE_BYTES, sizes))
            text.seek(0)
            part.writelines(itertools.islice(text, lines))
        setup = {"path": str(sample)}
        entries = {
            name: Entry(f"text:{target}", setup, True, needs)
            for name, (target, needs) in PEERS.items()
        }
        entries["tinylm clean_text"] = Entry("text:our_cleaning", setup)
        with options.contenders(entries) as contenders:
            rate_of = rates(trials(contenders, min(options.trials, 3), warm_up=0), "mb")
    what = "text to ids, compared with words counted and encoded by a peer"
    counting = [name for name in list(PEERS)[:2] if name in rate_of]
    rows = [
        Row(what, "MB/s", spread([rate]), rate_of[name], name, rate / rate_of[name]["median"])
        for name in counting
    ]
    what, ours, peer = "quotes mended, one core", rate_of["tinylm clean_text"], "ftfy.fix_text"
    return [
        *rows,
        against(what, "MB/s", ours, rate_of[peer], peer)
        if peer in rate_of
        else Row(what, "MB/s", ours),
    ]


def corpus(options: Options) -> list[Row]:
    """A corpus of 2.1 M stories, 1.9 GB: quotes mended, words counted and encoded; also with endless new words."""
    rows: list[Row] = []
    rate = 0.0
    for kind, share in list(NEW_WORDS.items())[: 1 if options.tiny else None]:
        data = synthetic(options, share)
        size = (data / "train.txt").stat().st_size / 1e6
        stages = _stages(options, data)
        rate = rate or size / sum(seconds for seconds, _ in stages.values())
        rows += _rows(f"{size:,.0f} MB, {kind}", stages)
    return rows + _peers(options, synthetic(options, 0.0), rate)

"""The default pipeline's stages without DVC: `python -m benchmarks.gpu_stages WORK RESULTS`.

A machine for measurements may lack DVC and fastText, so the vectors are counts of neighbours. The
stages run in a copy of the project in the folder WORK; seconds and metrics go to RESULTS.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tinylm.base.files import read_json, write_bytes, write_json
from tinylm.host.command import guard
from tinylm.presets.write import merge

STAGES = ["download", "vocab", "train", "evaluate"]
STAGES += ["accum_sweep", "beam_bench", "kv_bench", "ckpt_bench"]
PREPARATION = ("download", "vocab")
PROJECT = ("tinylm", "stages", "dvc.yaml", "params.yaml", "pyproject.toml")
TINY: dict[str, dict[str, Any]] = {
    "data": {"train_stories": 300, "evaluation_stories": 40},
    "embedding": {"width": 32},
    "model": {"layers": 2, "feed_forward": 48},
    "train": {"tokens": 4000, "sample_every": 100},
    "evaluate": {
        "stories": 4,
        "new_tokens": 8,
        "bootstrap": 50,
        "ablation_stories": 2,
        "tendency_sentences": 4,
    },
    "beam_bench": {"widths": [1, 2], "prompts": 2, "new_tokens": 4},
    "kv_bench": {"batch": 2, "lengths": [6]},
    "accum_sweep": {"batch_size": 1, "tokens": 2000, "held_out_batches": 2},
    "ckpt_bench": {"depths": [2], "batch_size": 2, "repeats": 1},
    "runtime": {"device": "cpu"},
}


def copy_project(folder: Path, changes: dict[str, dict[str, Any]]) -> None:
    """A copy of the project with some changed parameters."""
    for name in PROJECT:
        source = Path(name)
        copy: Any = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    path = folder / "params.yaml"
    text = path.read_text(encoding="utf-8")
    merged = merge(text, json.dumps(changes), "the changes")  # JSON is YAML
    write_bytes(path, merged.encode())


def run_stage(stage: str, folder: Path) -> dict[str, Any]:
    """Seconds and exit code of one stage, and the end of its output if it failed."""
    name, *arguments = stage.split()
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"stages.{name}", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    result: dict[str, Any] = {"seconds": time.perf_counter() - start, "exit_code": done.returncode}
    print(f"{stage}: {result['seconds']:.1f} s, exit code {done.returncode}", flush=True)
    if done.returncode:
        result["output"] = (done.stdout + done.stderr)[-3000:]
        print(result["output"], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_stages", description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    folder: Path = arguments.work
    folder.mkdir(parents=True)
    changes: dict[str, dict[str, Any]] = {"embedding": {"source": "counts"}}
    if arguments.tiny:
        changes = TINY | {"embedding": changes["embedding"] | TINY["embedding"]}
    copy_project(folder, changes)
    results: dict[str, Any] = {"stages": {}}
    for stage in STAGES:
        results["stages"][stage] = run_stage(stage, folder)
        write_json(arguments.results / "stages.json", results)
    timed = [stage for stage in STAGES if stage not in PREPARATION]
    results["train_to_ckpt_bench_s"] = sum(results["stages"][s]["seconds"] for s in timed)
    metrics = {path.stem: read_json(path) for path in sorted((folder / "metrics").glob("*.json"))}
    results["metrics"] = metrics
    write_json(arguments.results / "stages.json", results)
    print(f"train to ckpt_bench: {results['train_to_ckpt_bench_s']:.0f} s", flush=True)
    if any(result["exit_code"] for result in results["stages"].values()):
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(guard(main))

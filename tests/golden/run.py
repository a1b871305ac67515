"""`make golden`: a small pipeline in many variants, to compare two states of the code by every result.

    make golden                                compares with .golden.json, or writes it where there is none
    python -m tests.golden.run --tree OTHER    the same for another checkout (before a change), with this interpreter
    python -m tests.golden.run --only bf16     some variants only

Everything runs as a user runs it (stages, the command `tinylm`), so that the script survives any change inside.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from safetensors import safe_open

from tests.support import clone
from tests.support.clone import copy_tree, set_params
from tests.support.stages import is_measured
from tinylm.base.files import read_json

HERE = Path(__file__).parents[2]
# "section.key=value ...", the value as in YAML
SMALL = """
data.train_stories=400 embedding.width=32 model.layers=4 model.heads=4 model.feed_forward=48 model.dropout=0.1
train.tokens=12000 runtime.sample_every=15 train.keep_epochs=[0.1] train.precision=fp32
evaluate.new_tokens=6 beam_bench.widths=[1,3] beam_bench.new_tokens=5 kv_bench.lengths=[6] ckpt_bench.updates=4
runtime.snapshot_every_s=0.05"""
WHOLE = ["beam_bench", "kv_bench", "accum_sweep", "ckpt_bench"]
WHOLE += ["seed_train 2", "seed_score 2", "seeds", "report"]
# All start from the vocabulary of `fp32`; train runs in each.
VARIANTS = {
    "fp32": "",
    "bf16": "train.precision=bf16",
    "bf16, two threads": "train.precision=bf16 runtime.threads=2",
    "bf16, no compiler": "train.precision=bf16",
    "bf16, post-norm, relu, torch's attention": "train.precision=bf16 model.norm=post model.activation=relu "
    "train.attention=torch",
    "bf16, std norm, narrow heads, untied": "train.precision=bf16 model.norm_kind=std model.head_width=5 "
    "model.tied_output=false model.output_bias=true",
    "recompute": "train.recompute=blocks",
    "recompute, bf16": "train.recompute=blocks train.precision=bf16",
    "two processes": "train.processes=2",
    "two processes, bf16": "train.processes=2 train.precision=bf16",
    "killed and resumed": "",
    "rms norm, learned positions, adam, accumulation": "model.norm_kind=rms model.positions=learned model.init=xavier "
    "model.embedding=frozen train.optimizer=adam train.accumulation=2 train.layout=stream",
}
ENVIRONMENT = {"bf16, no compiler": {"CXX": "no-compiler"}}
EVALUATED = (
    "bf16, no compiler",
    "killed and resumed",
    "rms norm, learned positions, adam, accumulation",
)
AFTER = {name: ["evaluate"] for name in EVALUATED}  # stages after train
AFTER |= {"fp32": ["evaluate", *WHOLE], "bf16": ["evaluate", "kv_bench"]}
PROMPTS = ("once upon a time", "the dog")
GENERATED = {
    "greedy": ["--greedy"],
    "sampled": ["--seed", "3", "--top-k", "20", "--log-probs"],
    "nucleus": ["--seed", "4", "--top-p", "0.9", "--repetition-penalty", "1.2", "--no-cache"],
    "beams": ["--beams", "4", "--n-best", "2"],
    "greedy, compiled": ["--greedy", "--step", "compiled"],
    "sampled, plain": ["--seed", "5", "--step", "plain"],
    "beams, compiled": ["--beams", "3", "--step", "compiled"],
}
Record = dict[str, Any]


def parsed(changes: str) -> dict[str, Any]:
    """{"section.key": value}"""
    return {
        name: yaml.safe_load(value)
        for name, _, value in (word.partition("=") for word in changes.split())
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Tree:
    """A throw-away folder with a checkout's files, in which commands run."""

    def __init__(self, path: Path, source: Path) -> None:
        self.path = path
        copy_tree(path, source)

    def copy(self, path: Path) -> "Tree":
        """The same as it is now, elsewhere."""
        shutil.copytree(self.path, path)
        twin = object.__new__(Tree)
        twin.path = path
        return twin

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        environment = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("GIT_", "DVC_", "PYTHON", "TINYLM"))
        }
        environment |= {"PYTHONPATH": str(self.path), "OMP_NUM_THREADS": "1", **more}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=self.path,
            env=environment,
            text=True,
            stdout=pipe,
            stderr=pipe,
        )

    def run(self, *words: str, **more: str) -> str:
        """What a module prints. Ends the script where it fails."""
        running = self.start(*words, **more)
        out, errors = running.communicate()
        if running.returncode:
            sys.exit(
                f"{' '.join(words)}: exit {running.returncode}\n{out[-2000:]}\n{errors[-4000:]}"
            )
        return out

    def stage(self, name: str, **more: str) -> None:
        words = name.split()
        self.run(f"stages.{words[0]}", *words[1:], **more)

    def files(self) -> Iterator[Path]:
        """What stages wrote, but for what holds or draws times."""
        for folder in ("data", "models", "metrics", "plots"):
            for path in sorted((self.path / folder).rglob("*")):
                name = path.relative_to(self.path).as_posix()
                if path.is_file() and not is_measured(name) and path.name != ".gitignore":
                    yield path

    def record(self) -> Record:
        """Names and shapes of weights, values of metrics, hashes of the rest."""
        found: Record = {}
        for path in self.files():
            name = path.relative_to(self.path).as_posix()
            if name.startswith("data/figures/"):
                found |= flat(name, read_json(path))
            else:
                found[name] = sha256(path)
            if name == "models/model.safetensors":
                with safe_open(path, "pt") as weights:
                    found["state_dict"] = {
                        key: weights.get_slice(key).get_shape() for key in sorted(weights.keys())
                    }
        return found


def flat(name: str, value: Any) -> Record:
    """{"a": {"b": 1}} as {"a.b": 1}; long lists as a hash."""
    if isinstance(value, dict):
        return {
            key: v
            for part, inner in value.items()
            for key, v in flat(f"{name}.{part}", inner).items()
        }
    text = json.dumps(value, sort_keys=True)
    return {name: value if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest()[:16]}


def killed(tree: Tree) -> None:
    """Train, killed by SIGKILL after its second snapshot, and again to the end."""
    running = tree.start("stages.train")
    while len(list(tree.path.glob("runs/train/0*.safetensors"))) < 2 and running.poll() is None:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    if running.returncode != -signal.SIGKILL:
        sys.exit("killed and resumed: the run ended before it could be killed")
    if "resumed" not in tree.run("stages.train"):
        sys.exit("killed and resumed: the run started anew")


def texts(tree: Tree) -> Record:
    """What the command `tinylm` prints and writes of a trained model."""
    found: Record = {}
    for name, options in GENERATED.items():
        words = ["tinylm.cli", "generate", *PROMPTS, "--max-tokens", "30", *options]
        found[f"generate, {name}"] = tree.run(*words)
    tree.run("tinylm.cli", "export", "export")
    for path in sorted((tree.path / "export").rglob("*")):
        if path.is_file() and path.name != "README.md":
            found[f"export/{path.name}"] = sha256(path)
    return found


def variants(source: Path, folder: Path) -> Iterator[tuple[str, Callable[[], Record]]]:
    """(name, how to run it), in order: the first makes the vocabulary of the others."""
    base = Tree(folder / "base", source)
    set_params(base.path, clone.SMALL | parsed(SMALL))
    for stage in ("download", "vocab"):
        base.stage(stage)

    def variant(name: str) -> Record:
        tree, environment = base.copy(folder / name.replace(" ", "_")), ENVIRONMENT.get(name, {})
        set_params(tree.path, parsed(VARIANTS[name]))
        if name == "killed and resumed":
            killed(tree)
        else:
            tree.stage("train", **environment)
        for stage in AFTER.get(name, []):
            tree.stage(stage, **environment)
        return tree.record() | (texts(tree) if name in ("fp32", "bf16") else {})

    for name in VARIANTS:
        yield name, lambda name=name: variant(name)  # type: ignore[misc]


def differences(before: Record, after: Record) -> list[str]:
    """One line for each entry that is not the same."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, "(not there)"), after.get(key, "(not there)")
        if old != new:
            lines.append(f"  {key}: {str(old)[:200]} -> {str(new)[:200]}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description="A small pipeline in many variants, compared with a record."
    )
    parser.add_argument(
        "--tree", type=Path, default=HERE, help="the checkout to run (default: this one)"
    )
    parser.add_argument(
        "--record", type=Path, default=HERE / ".golden.json", help="compared with, or written"
    )
    parser.add_argument(
        "--only", action="append", default=[], help="variants whose name holds this"
    )
    options = parser.parse_args()
    old = json.loads(options.record.read_text("utf-8")) if options.record.exists() else {}
    new, failed = dict(old), False
    with tempfile.TemporaryDirectory() as folder:
        for name, run in variants(options.tree.resolve(), Path(folder)):
            if options.only and not any(part in name for part in options.only):
                continue
            start, found = time.perf_counter(), json.loads(json.dumps(run()))
            lines = differences(old[name], found) if name in old else []
            verdict = (
                "recorded"
                if name not in old
                else f"{len(lines)} differ"
                if lines
                else f"{len(found)} equal"
            )
            print(
                f"{name}: {verdict} ({time.perf_counter() - start:.0f} s)",
                *lines,
                sep="\n",
                flush=True,
            )
            failed = failed or bool(lines)
            new.setdefault(name, found)
            options.record.write_text(
                json.dumps(new, indent=1, sort_keys=True) + "\n", encoding="utf-8"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""`make golden`: a small pipeline in many variants, to compare two states of the code by every result.

    make golden                                compares with .golden.json, or writes it where there is none
    python -m tests.golden.run --tree OTHER    the same for another checkout (before a change), with this interpreter
    python -m tests.golden.run --only bf16     some variants only

Everything runs as a user runs it (stages, the command `tinylm`), so that the script survives any change inside.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support import clone
from tests.support.clone import Clone, copy_tree, set_params
from tests.support.stages import is_measured
from tinylm.base.files import read_json, sha256

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
    "bf16, no compiler": "train.precision=bf16",
    "bf16, std norm, narrow heads, untied": "train.precision=bf16 model.norm_kind=std model.head_width=5 "
    "model.tied_output=false model.output_bias=true train.recompute=blocks",
    "two processes": "train.processes=2 model.norm=post model.activation=relu",
    "rms norm, learned positions, adam, accumulation": "model.norm_kind=rms model.positions=learned model.init=xavier "
    "model.embedding=frozen train.optimizer=adam train.accumulation=2 train.layout=stream",
}
ENVIRONMENT = {"bf16, no compiler": {"CXX": "no-compiler"}}
# stages after train
AFTER = {name: ["evaluate"] for name in VARIANTS if name.startswith(("bf16, no", "rms"))}
AFTER |= {"fp32": ["evaluate", *WHOLE], "bf16": ["evaluate", "kv_bench"]}
PROMPTS = ("once upon a time", "the dog")
GENERATED = {
    "greedy": ["--greedy"],
    "sampled, plain": ["--seed", "3", "--top-k", "20", "--log-probs", "--step", "plain"],
    "nucleus": ["--seed", "4", "--top-p", "0.9", "--repetition-penalty", "1.2", "--no-cache"],
    "beams, compiled": ["--beams", "3", "--n-best", "2", "--step", "compiled"],
}
Record = dict[str, Any]


def parsed(changes: str) -> dict[str, Any]:
    """{"section.key": value}"""
    return {
        name: yaml.safe_load(value)
        for name, _, value in (word.partition("=") for word in changes.split())
    }


def run(tree: Clone, *words: str, **environment: str) -> str:
    """What a module prints, run in a throw-away copy of a checkout. A module that fails ends the script."""
    environment["PYTHONPATH"] = str(tree.path)
    return tree.run(sys.executable, "-m", *words, **environment).stdout


def written(tree: Clone) -> Iterator[Path]:
    """What stages wrote, except files that hold or draw times."""
    for folder in ("data", "models", "metrics", "plots"):
        for path in sorted((tree.path / folder).rglob("*")):
            name = path.relative_to(tree.path).as_posix()
            if path.is_file() and not is_measured(name) and path.name != ".gitignore":
                yield path


def results(tree: Clone) -> Record:
    """The values of metrics and a hash of every other file."""
    found: Record = {}
    for path in written(tree):
        name = path.relative_to(tree.path).as_posix()
        if name.startswith(("data/figures/", "metrics/")):
            found |= flat(name, read_json(path))
        else:
            found[name] = sha256(path)[:16]
    return found


def flat(name: str, value: Any) -> Record:
    """{"a": {"b": 1}} as {"a.b": 1}; long lists as a hash."""
    if not isinstance(value, dict):
        text = json.dumps(value, sort_keys=True)
        return {name: value if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest()[:16]}
    found: Record = {}
    for part, inner in value.items():
        found |= flat(f"{name}.{part}", inner)
    return found


def texts(tree: Clone) -> Record:
    """What the command `tinylm` prints and writes of a trained model."""
    found: Record = {}
    for name, options in GENERATED.items():
        words = ["tinylm.cli", "generate", *PROMPTS, "--max-tokens", "30", *options]
        found[f"generate, {name}"] = run(tree, *words)
    run(tree, "tinylm.cli", "export", "export")
    for path in sorted((tree.path / "export").rglob("*")):
        if path.is_file() and path.name != "README.md":
            found[f"export/{path.name}"] = sha256(path)[:16]
    return found


def variants(source: Path, folder: Path) -> Iterator[tuple[str, Callable[[], Record]]]:
    """(name, how to run it), in order: the first makes the vocabulary of the others."""
    base = Clone(folder / "base")
    copy_tree(base.path, source)
    set_params(base.path, clone.SMALL | parsed(SMALL))
    for stage in ("download", "vocab"):
        run(base, f"stages.{stage}")

    def variant(name: str) -> Record:
        tree = Clone(folder / name.replace(" ", "_"))
        shutil.copytree(base.path, tree.path)
        set_params(tree.path, parsed(VARIANTS[name]))
        for stage in ("train", *AFTER.get(name, [])):
            module, *arguments = f"stages.{stage}".split()
            run(tree, module, *arguments, **ENVIRONMENT.get(name, {}))
        return results(tree) | (texts(tree) if name in ("fp32", "bf16") else {})

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
    parser = argparse.ArgumentParser(description="Many variants, compared with a record.")
    parser.add_argument("--tree", type=Path, default=HERE, help="the checkout to run")
    parser.add_argument(
        "--record", type=Path, default=HERE / ".golden.json", help="what to compare"
    )
    parser.add_argument("--only", action="append", default=[], help="variants with this name")
    options = parser.parse_args()
    old = json.loads(options.record.read_text("utf-8")) if options.record.exists() else {}
    new, failed = dict(old), False
    with tempfile.TemporaryDirectory() as folder:
        for name, record in variants(options.tree.resolve(), Path(folder)):
            if not any(part in name for part in options.only or [""]):
                continue
            start, found = time.perf_counter(), json.loads(json.dumps(record()))
            lines = differences(old.get(name, found), found)
            verdict = f"{len(lines)} differ" if lines else f"{len(found)} equal"
            verdict = verdict if name in old else "recorded"
            print(f"{name}: {verdict} ({time.perf_counter() - start:.0f} s)", flush=True)
            print(*lines, sep="\n", end="\n" * bool(lines), flush=True)
            failed = failed or bool(lines)
            new.setdefault(name, found)
            text = json.dumps(new, indent=1, sort_keys=True) + "\n"
            options.record.write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bash
# datasets 5.2.0: load_dataset on a folder can put one file in two splits and another one in none.
#
# One expects: each data file of a folder lands in one split, the one that its name says, in "train" if
# it says none, or there is an error. At least that no row is both in train and in test.
#
# What happens:
# - A name with two of the words holds for both: test_train.jsonl (say, the training half of a test
#   collection) is read into "train" and into "test", so that test rows are trained on.
# - As soon as one name says a split, files that say none are left out (more.jsonl).
# - One file named NAME-00000-of-00001 in data/ changes the rule for the whole folder: only files named
#   so are read. validation.jsonl beside it vanishes, and "dev-00000-of-00001" is a split "dev", whereas
#   dev.jsonl alone is "validation".
# - eval.jsonl is "test", dev.jsonl "validation".
# No warning in any of these, and no way to see it but to count.
#
# Seen on 2026-11-29 with datasets 5.2.0:
#   train.jsonl test_train.jsonl more.jsonl
#     train: test_train train | test: test_train
#   dev.jsonl eval.jsonl
#     validation: dev | test: eval
#   data/train-00000-of-00001.jsonl data/validation.jsonl
#     train: train-00000-of-00001
#   data/train-00000-of-00001.jsonl data/dev-00000-of-00001.jsonl
#     dev: dev-00000-of-00001 | train: train-00000-of-00001
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile datasets==5.2.0
export HF_HOME="$T/cache" HF_HUB_OFFLINE=1
cat > seen.py <<'PY'
import json
from pathlib import Path
import datasets

datasets.disable_progress_bars()
for i, files in enumerate((
    ["train.jsonl", "test_train.jsonl", "more.jsonl"],
    ["dev.jsonl", "eval.jsonl"],
    ["data/train-00000-of-00001.jsonl", "data/validation.jsonl"],
    ["data/train-00000-of-00001.jsonl", "data/dev-00000-of-00001.jsonl"],
)):
    folder = Path(f"folder{i}")
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"file": path.stem}) + "\n")
    splits = datasets.load_dataset(str(folder))
    print(*files)
    order = sorted(splits, key=lambda s: ("dev", "train", "validation", "test").index(s))
    print("  " + " | ".join(f"{s}: {' '.join(sorted(splits[s]['file']))}" for s in order), flush=True)
PY
v/bin/python seen.py > seen 2> said
cat seen said
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
train.jsonl test_train.jsonl more.jsonl
  train: test_train train | test: test_train
dev.jsonl eval.jsonl
  validation: dev | test: eval
data/train-00000-of-00001.jsonl data/validation.jsonl
  train: train-00000-of-00001
data/train-00000-of-00001.jsonl data/dev-00000-of-00001.jsonl
  dev: dev-00000-of-00001 | train: train-00000-of-00001
EXPECTED
if grep -qE 'more|validation|test_train' said; then echo "CHANGED: it now says something" >&2; exit 1; fi

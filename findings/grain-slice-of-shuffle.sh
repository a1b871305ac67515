#!/usr/bin/env bash
# grain 0.2.18: training and held-out rows cut from one shuffled MapDataset mix from the second epoch on.
#
# One expects: rows = MapDataset.range(100).shuffle(seed=7), then rows[:80] to train on and rows[80:]
# to test on, are two fixed and disjoint sets, as with any array, list or Hugging Face dataset. Repeating
# the first one for five epochs shows those 80 rows five times.
#
# What happens: a slice is a set of positions, not of rows. Past its end it goes on into the next epoch
# of its parent, which is shuffled anew, and takes positions 0 to 79 of that. So the first epoch is
# disjoint (a check made then is satisfied), the second one already trains on 15 of the 20 held-out
# rows, and five epochs have seen all 20. The held-out slice changes in the same way with each pass.
# Nothing is said. The same slices of a dataset that is not shuffled, with the shuffle after the cut,
# stay disjoint.
#
# Seen on 2026-11-29 with grain 0.2.18 and numpy 2.4.6:
#   epoch 1: 80 rows, of them held out 0
#   epoch 2: 80 rows, of them held out 15
#   epochs 1 to 5: 400 rows, 100 different, of them held out 20
#   held-out slice, second pass has the rows of the first: False
#   cut first, shuffled after, epochs 1 to 5: 400 rows, 80 different, of them held out 0
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile grain==0.2.18 numpy==2.4.6
cat > seen.py <<'PY'
import grain

def show(name, rows, held_out):
    n, different = len(rows), set(rows)
    more = f", {len(different)} different" if n > 100 else ""
    print(f"{name}: {n} rows{more}, of them held out {len(different & held_out)}")

rows = grain.MapDataset.range(100).shuffle(seed=7)
train, test = rows[:80], rows[80:]
held_out = set(test)
seen = list(train.repeat(5))
show("epoch 1", seen[:80], held_out)
show("epoch 2", seen[80:160], held_out)
show("epochs 1 to 5", seen, held_out)
twice = list(test.repeat(2))
print("held-out slice, second pass has the rows of the first:", set(twice[:20]) == set(twice[20:]))

rows = grain.MapDataset.range(100)
show("cut first, shuffled after, epochs 1 to 5", list(rows[:80].shuffle(seed=7).repeat(5)), set(rows[80:]))
PY
v/bin/python seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
epoch 1: 80 rows, of them held out 0
epoch 2: 80 rows, of them held out 15
epochs 1 to 5: 400 rows, 100 different, of them held out 20
held-out slice, second pass has the rows of the first: False
cut first, shuffled after, epochs 1 to 5: 400 rows, 80 different, of them held out 0
EXPECTED

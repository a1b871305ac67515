#!/usr/bin/env bash
# ruamel.yaml 0.19.1: emptying a list whose key has a comment makes the file invalid, at another key.
#
# One expects of a library that keeps comments: after `document["seeds"] = []`, the comment stays or moves, and the file holds
# the same values otherwise. The guess before the run was that the comment might be lost.
#
# What happens: if the list is written with an item on each line, the comment beside its key belongs to the list. The new
# empty list is written in front of it, and the next line break is left out, one or more lines below. Two keys share a line,
# and the file is not YAML any more. An empty mapping in the same place is written right, and so is a list whose comment
# stands above its key.
# Tools that edit YAML with this library do the same: `dvc exp run -S 'seeds=[]'` (dvc 3.67.1) refuses its own edit.
#
# Seen on 2026-11-30 with ruamel.yaml 0.19.1:
#   comment beside the key, []: not YAML: 'layers: 2 width: 8'
#   comment beside the key, {}: as expected
#   comment above the key, []: as expected
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile ruamel.yaml==0.19.1
cat > seen.py <<'PY'
import io

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


def emptied(text, value):
    """What is wrong after seeds was set to an empty value."""
    library = YAML()
    document = library.load(text)
    document["seeds"] = value
    target = io.StringIO()
    library.dump(document, target)
    wanted = YAML(typ="safe").load(text) | {"seeds": value}
    try:
        got = YAML(typ="safe").load(target.getvalue())
    except YAMLError:
        long = max(target.getvalue().splitlines()[1:], key=len)
        return f"not YAML: {long!r}"
    wrong = [f"{key} is {got[key]!r} instead of {wanted[key]!r}" for key in wanted if got[key] != wanted[key]]
    return "; ".join(wrong) or "as expected"


BESIDE = "seeds:  # further ones\n- 2\n- 3\n"
ABOVE = "# further ones\nseeds:\n- 2\n- 3\n"
REST = "layers: 2\nwidth: 8\n"
print("comment beside the key, []:", emptied(BESIDE + REST, []))
print("comment beside the key, {}:", emptied(BESIDE + REST, {}))
print("comment above the key, []:", emptied(ABOVE + REST, []))
PY
v/bin/python seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-30" >&2; exit 1; }
comment beside the key, []: not YAML: 'layers: 2 width: 8'
comment beside the key, {}: as expected
comment above the key, []: as expected
EXPECTED

#!/usr/bin/env bash
# outlines-core 0.2.14: a JSON schema's string pattern with an alternative in it admits only text that is
# no JSON, and beside a length it is not looked at.
#
# outlines-core turns a JSON schema into the regular expression that a model's output is held to.
#
# One expects: {"type": "string", "pattern": "^yes|no$"} to be put in a group, so that "yes" and "no" can
# be written; and of pattern and minLength together either both to count or an error.
#
# What happens: the pattern's text, less ^ and $, is pasted between two quotation marks without a group:
# ("yes|no"). That reads as  "yes  or  no" , each with one quotation mark: a model held to it can write
# nothing that parses. With minLength or maxLength beside it, pattern (and format as well) has no
# effect: any text of that length is accepted. Both in silence; the schemas are valid, and the same
# pattern written as ^(yes|no)$ works.
#
# Seen on 2026-11-29 with outlines-core 0.2.14:
#   {"type": "string", "pattern": "^(yes|no)$"}: '"yes"' yes, '"no"' yes, '"yes' no, 'no"' no, '"maybe"' no
#   {"type": "string", "pattern": "^yes|no$"}: '"yes"' no, '"no"' no, '"yes' yes, 'no"' yes, '"maybe"' no
#   {"type": "string", "pattern": "^(yes|no)$", "maxLength": 5}: '"yes"' yes, '"no"' yes, '"yes' no, 'no"' no, '"maybe"' yes
#   {"type": "string", "format": "date"}: '"2026-11-29"' yes, '"some words"' no
#   {"type": "string", "format": "date", "minLength": 10}: '"2026-11-29"' yes, '"some words"' yes
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile outlines-core==0.2.14
cat > seen.py <<'PY'
import json
import re
from outlines_core.json_schema import build_regex_from_schema

words = ['"yes"', '"no"', '"yes', 'no"', '"maybe"']
dates = ['"2026-11-29"', '"some words"']
for rule, texts in (
    ({"pattern": "^(yes|no)$"}, words),
    ({"pattern": "^yes|no$"}, words),
    ({"pattern": "^(yes|no)$", "maxLength": 5}, words),
    ({"format": "date"}, dates),
    ({"format": "date", "minLength": 10}, dates),
):
    schema = json.dumps({"type": "string", **rule})
    regex = re.compile(build_regex_from_schema(schema))
    print(f"{schema}: " + ", ".join(f"{t!r} {'yes' if regex.fullmatch(t) else 'no'}" for t in texts))
PY
v/bin/python -W error seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
{"type": "string", "pattern": "^(yes|no)$"}: '"yes"' yes, '"no"' yes, '"yes' no, 'no"' no, '"maybe"' no
{"type": "string", "pattern": "^yes|no$"}: '"yes"' no, '"no"' no, '"yes' yes, 'no"' yes, '"maybe"' no
{"type": "string", "pattern": "^(yes|no)$", "maxLength": 5}: '"yes"' yes, '"no"' yes, '"yes' no, 'no"' no, '"maybe"' yes
{"type": "string", "format": "date"}: '"2026-11-29"' yes, '"some words"' no
{"type": "string", "format": "date", "minLength": 10}: '"2026-11-29"' yes, '"some words"' yes
EXPECTED

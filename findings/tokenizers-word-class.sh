#!/usr/bin/env bash
# tokenizers 0.23.3: in the regex of a Split pre-tokenizer, \w and [\w] are two different classes.
#
# One expects: putting a class in brackets changes nothing, and [^\s\w] (the
# "everything else" branch that stands after \w+ in many pre-tokenizers) never overlaps \w. And whatever
# \w thinks of superscripts and fractions, it thinks of all of them.
#
# What happens: the six characters ¹ ² ³ ¼ ½ ¾ (those below U+0100) are word characters for a bare \w and
# none inside brackets. From U+0100 on (tried to U+2FFF) the two agree. So
# "5 m²" is cut otherwise by \w+ than by [\w]+, "m²" stays whole where "m⁴" is cut, and both \w and
# [^\s\w] claim ². Rewriting \w+ as [\w']+ to keep apostrophes therefore changes other words, too, in
# silence: a trained vocabulary no longer fits the text.
#
# Seen on 2026-11-29 with tokenizers 0.23.3:
#   \w+: ['5', ' ', 'm²', ' ', '1½', ' ', 'm', '⁴ ', '1', '⅓']
#   [\w]+: ['5', ' ', 'm', '² ', '1', '½ ', 'm', '⁴ ', '1', '⅓']
#   in \w and not in [\w], of U+0080 to U+2FFF: ¹ ² ³ ¼ ½ ¾
#   in [\w] and not in \w: none
#   of the six, in [^\s\w]: 6, in \W: 0
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export PYTHONUTF8=1
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile tokenizers==0.23.3
cat > seen.py <<'PY'
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

def pieces(regex, text, behavior="isolated"):
    return [piece for piece, _ in Split(Regex(regex), behavior).pre_tokenize_str(text)]

def members(regex):
    return {c for c in map(chr, range(0x80, 0x3000)) if pieces(regex, c, "removed") == []}

for regex in (r"\w+", r"[\w]+"):
    print(f"{regex}: {pieces(regex, '5 m² 1½ m⁴ 1⅓')}")
bare, bracketed = members(r"\w"), members(r"[\w]")
six = bare - bracketed
print(r"in \w and not in [\w], of U+0080 to U+2FFF:", *sorted(six, key="¹²³¼½¾".find))
print(r"in [\w] and not in \w:", *(sorted(bracketed - bare) or ["none"]))
others, outside = members(r"[^\s\w]"), members(r"\W")
print(rf"of the six, in [^\s\w]: {len(six & others)}, in \W: {len(six & outside)}")
PY
v/bin/python -W error seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
\w+: ['5', ' ', 'm²', ' ', '1½', ' ', 'm', '⁴ ', '1', '⅓']
[\w]+: ['5', ' ', 'm', '² ', '1', '½ ', 'm', '⁴ ', '1', '⅓']
in \w and not in [\w], of U+0080 to U+2FFF: ¹ ² ³ ¼ ½ ¾
in [\w] and not in \w: none
of the six, in [^\s\w]: 6, in \W: 0
EXPECTED

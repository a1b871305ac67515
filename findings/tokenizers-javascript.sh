#!/usr/bin/env bash
# @huggingface/tokenizers 0.2.0 (npm): one tokenizer.json gives different ids than in Python, and can lose text.
#
# transformers.js tokenizes with this package, and transformers with the Python one.
#
# One would expect: the same file and text give the same ids in both, or an error where the port does not
# know a rule. At the least, no text should go missing.
#
# What happens: the port ignores settings that it does not know.
# - Split with invert keeps only the matches, whatever the behavior: the text between them is lost.
# - Of Split's behaviors only "removed" works, and only with a Regex; all others act as "isolated".
# - Punctuation keeps a run of marks together (...! is one piece), though its default is to cut at each.
# - Metaspace does not split at spaces.
# - An added token with single_word is found in the middle of words.
# - Unigram with byte_fallback gives <unk> for letters that Python spells in bytes.
# - Lowercase turns the last Σ of a Greek word into ς. The Python package lowers each letter by itself
#   and gives σ, unlike str.lower().
# There is no error or warning. In most cases below, the vocabulary has the pieces of both sides, so not
# even an <unk> shows the difference.
#
# Seen on 2026-11-29 with tokenizers 0.23.3 and @huggingface/tokenizers 0.2.0:
#   Python, Split inverted: ab12cd -> ab|12|cd = 1 2 3
#   npm,    Split inverted: ab12cd -> ab|cd = 1 3
#   Python, Split merged_with_next: a-b -> a|-b = 1 2
#   npm,    Split merged_with_next: a-b -> a|-|b = 1 3 4
#   Python, Split contiguous: a--b -> a|--|b = 1 3 4
#   npm,    Split contiguous: a--b -> a|-|-|b = 1 2 2 4
#   Python, Split removed, no Regex: a,b -> a|b = 1 2
#   npm,    Split removed, no Regex: a,b -> a|,|b = 1 3 2
#   Python, Punctuation: so...! -> so|.|.|.|! = 1 2 2 2 3
#   npm,    Punctuation: so...! -> so|...! = 1 4
#   Python, Metaspace: a b -> ▁a|▁b = 1 2
#   npm,    Metaspace: a b -> ▁a▁b = 0
#   Python, single_word: said ai -> said|ai = 1 4
#   npm,    single_word: said ai -> s|ai|d|ai = 2 4 3 4
#   Python, byte_fallback: aé -> a|<0xC3>|<0xA9> = 1 197 171
#   npm,    byte_fallback: aé -> a|é = 1 0
#   Python, Lowercase: ΟΔΟΣ -> οδοσ = 1
#   npm,    Lowercase: ΟΔΟΣ -> οδος = 2
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export PYTHONUTF8=1
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile tokenizers==0.23.3
npm install --silent --no-audit --no-fund --cache "$T/cache" @huggingface/tokenizers@0.2.0
cat > seen.py <<'PY'
import json
from pathlib import Path
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import Unigram, WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Metaspace, Punctuation, Split, WhitespaceSplit

def words(pre_tokenizer, *vocabulary):
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(("<unk>", *vocabulary))}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer

added = words(WhitespaceSplit(), "said", "s", "d")
added.add_tokens([AddedToken("ai", single_word=True)])
greek = words(WhitespaceSplit(), "οδοσ", "οδος")
greek.normalizer = Lowercase()
pieces = [("<unk>", 0.0), ("a", -1.0), *((f"<0x{byte:02X}>", -9.0) for byte in range(256))]
cases = []
for name, tokenizer, text in (
    ("Split inverted", words(Split(Regex("[a-z]+"), "isolated", invert=True), "ab", "12", "cd"), "ab12cd"),
    ("Split merged_with_next", words(Split(Regex("-"), "merged_with_next"), "a", "-b", "-", "b"), "a-b"),
    ("Split contiguous", words(Split(Regex("-"), "contiguous"), "a", "-", "--", "b"), "a--b"),
    ("Split removed, no Regex", words(Split(",", "removed"), "a", "b", ","), "a,b"),
    ("Punctuation", words(Punctuation(), "so", ".", "!", "...!"), "so...!"),
    ("Metaspace", words(Metaspace(), "▁a", "▁b"), "a b"),
    ("single_word", added, "said ai"),
    ("byte_fallback", Tokenizer(Unigram(pieces, 0, byte_fallback=True)), "aé"),
    ("Lowercase", greek, "ΟΔΟΣ"),
):
    encoded = tokenizer.encode(text)
    print(f"Python, {name}: {text} -> {'|'.join(encoded.tokens)} =", *encoded.ids)
    cases.append([name, text, json.loads(tokenizer.to_str())])
Path("cases.json").write_text(json.dumps(cases))
PY
cat > seen.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

// The second argument stands for tokenizer_config.json.
for (const [name, text, file] of JSON.parse(readFileSync("cases.json", "utf8"))) {
  const { tokens, ids } = new Tokenizer(file, { unk_token: "<unk>" }).encode(text);
  console.log(`npm,    ${name}: ${text} -> ${tokens.join("|")} = ${ids.join(" ")}`);
}
JS
v/bin/python -W error seen.py > python 2>&1 || true
node seen.mjs > npm 2>&1 || true
paste -d '\n' python npm | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
Python, Split inverted: ab12cd -> ab|12|cd = 1 2 3
npm,    Split inverted: ab12cd -> ab|cd = 1 3
Python, Split merged_with_next: a-b -> a|-b = 1 2
npm,    Split merged_with_next: a-b -> a|-|b = 1 3 4
Python, Split contiguous: a--b -> a|--|b = 1 3 4
npm,    Split contiguous: a--b -> a|-|-|b = 1 2 2 4
Python, Split removed, no Regex: a,b -> a|b = 1 2
npm,    Split removed, no Regex: a,b -> a|,|b = 1 3 2
Python, Punctuation: so...! -> so|.|.|.|! = 1 2 2 2 3
npm,    Punctuation: so...! -> so|...! = 1 4
Python, Metaspace: a b -> ▁a|▁b = 1 2
npm,    Metaspace: a b -> ▁a▁b = 0
Python, single_word: said ai -> said|ai = 1 4
npm,    single_word: said ai -> s|ai|d|ai = 2 4 3 4
Python, byte_fallback: aé -> a|<0xC3>|<0xA9> = 1 197 171
npm,    byte_fallback: aé -> a|é = 1 0
Python, Lowercase: ΟΔΟΣ -> οδοσ = 1
npm,    Lowercase: ΟΔΟΣ -> οδος = 2
EXPECTED

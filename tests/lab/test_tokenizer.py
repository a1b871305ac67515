"""The page's tokenizers give the ids and texts that tinylm's give."""

import json
import warnings

import pytest
from py_mini_racer import MiniRacer

from tinylm.lab.build import bundle, rule_of
from tinylm.vocab.kinds import make_tokenizer, open_tokenizer
from tinylm.vocab.settings import VocabSettings

TRAIN = [
    'Once upon a time, Lily\'s red-haired friend said: "Hello, (big) dog!" '
    "It cost $5 = 5 + 0 <ok>. Na\u00efve caf\u00e9s. A 5-year-old and/or 3.5kg at 10:30.",
    "KING LEAR: What's the matter?\nthe KING\u2019s men \u2026 the the the time time dog dog",
]
TEXTS = [
    "", " ", "once upon a time", "Lily's dog", "LILY'S DOG", "KING lear", "the <eos> and <unk> <sos>x",
    "a\tb\nc\r\nd\x00e\x85f", "zero\u200bwidth \ufeffmark soft\u00adhyphen", "cafe\u0301s caf\u00e9s",
    "\u03a3\u039f\u03a6\u039f\u03a3 \u03a3", "\u0130stanbul", "x" * 250, "e" * 99 + "'s",
    "it's 'quoted' \u2018so\u2019 rock'n'roll's", "5.00 + 3 = 8; a|b~c^d`e $", "\U0001f600 smile \u4e2d\u6587",
    "\ud800 lone", "a  b   c ", "\u00a0\u2003spaces\u3000", "under_score\u203fd", "\u0661\u0662 \u216b \u00bd",
    '"open" "close" (in) out.', "\u0927\u0928\u094d\u092f\u0935\u093e\u0926", "What's   the\n\nmatter? ",
    "\u1e9e\u00df \u00dfa", "the\u2028time\x1ddog", "l'anniversaire de l'instituteur'n'a'b", "a 5-year-old, 3.5 kg",
    "$1,000 at 10:30, 3.a \u0663.\u0665 and/or -5 - 3", "12" * 70 + ".5"
]  # fmt: skip
KINDS = [
    {"tokenizer": "words", "punctuation": punctuation, "lower_case": lower}
    for punctuation in ("drop", "keep", "attached")
    for lower in (True, False)
]
KINDS += [{"tokenizer": "bpe", "max_size": 300, "lower_case": lower} for lower in (True, False)]
KINDS += [{"tokenizer": "longest_match", "max_size": 120}]


@pytest.fixture(scope="module")
def engine():
    context = MiniRacer()
    context.eval(bundle(with_app=False) + "let tokenizer;")
    return context


def call(context, code):
    return json.loads(context.eval(f"JSON.stringify({code})"))


@pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values())
)
def test_ids_and_texts(engine, tmp_path, kind):
    settings = VocabSettings(**({"punctuation": "drop"} | kind))
    tokenizer, _ = make_tokenizer(settings, lambda: TRAIN)
    tokenizer.save(tmp_path / "tokenizer.json")
    rule = rule_of(open_tokenizer(tmp_path / "tokenizer.json"), tmp_path / "tokenizer.json")
    engine.eval(f"tokenizer = openTokenizer({json.dumps(rule)})")
    for text in [*TRAIN, *TEXTS]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that no token spells
            ids = tokenizer.encode(text)
        assert call(engine, f"tokenizer.encode({json.dumps(text)})") == ids, text
        if kind["tokenizer"] == "words":
            assert call(engine, f"tokenizer.decode({ids})") == tokenizer.decode(ids), text

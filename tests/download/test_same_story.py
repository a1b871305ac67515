"""Which stories are the same: what the coarsest tokenizer cannot tell apart."""

import unicodedata

from tests.download.test_rows import hostile_texts
from tinylm.download.cleaning import clean_text
from tinylm.download.same_story import bare_text
from tinylm.vocab.words import Splitter


def test_bare_text_is_what_the_coarsest_tokenizer_keeps():
    splitter = Splitter(lower_case=True, punctuation="drop")
    known = [code for code in range(0x11000) if unicodedata.category(chr(code)) != "Cn"]
    for raw in [*hostile_texts(), *map(chr, known), "ΣΑΣ Maße MASSE İstanbul"]:
        text = clean_text(raw, repair=True)
        assert bare_text(text) == "".join(splitter(text)).encode(), repr(text)


def test_vowel_signs_symbols_and_letters_count_but_not_form():
    different = ["कल", "काला", "केला", "किला", "कोला", "😀", "🙂", "Maße", "Masse", "5 €", "5 £"]
    assert len(set(map(bare_text, different))) == len(different)
    assert len(set(map(bare_text, ["The dog.", "the DOG!", "«The  dog»", "the\u00addog"]))) == 1

"""Oracle: answers worked out by hand, and the definition, step by step, on a longer text."""

from tinylm.learn.expect import expect

SPECIALS = ["<sos>", "<eos>", "<pad>", "<unk>"]
TEXTS = ["The cat sat.", "A cat and a dog sat; the end.", "b a b a c", "Zoe's zoo -- zoes ZOO!"]


def _split(text):
    marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    return "".join(c for c in text.lower() if c not in marks).split()


def _vocabulary(texts, max_words=None):
    words = [word for text in texts for word in _split(text)]
    order = sorted(set(words), key=lambda word: (-words.count(word), word))
    return SPECIALS + order[:max_words]


def splits(split):
    """split gives lower-case words without punctuation"""
    text = "It's a Cat."
    expect(split, {"text": text}, ["its", "a", "cat"], {
        "punctuation is still there": text.lower().split(),
        "punctuation inside a word is removed, too": ["it's", "a", "cat"],
        "the words are not in lower case": ["Its", "a", "Cat"],
        "a deleted mark leaves no space: its is one word": ["it", "s", "a", "cat"],
    })  # fmt: skip
    for text in ("", "  one\n two\t", *TEXTS, "well-known <eos>"):
        expect(split, {"text": text}, _split(text))


def builds(build_vocabulary):
    """build_vocabulary puts frequent words first, equal counts in alphabetical order"""
    texts = ["b a b", "c a"]
    right = [*SPECIALS, "a", "b", "c"]
    expect(build_vocabulary, {"texts": texts, "max_words": None}, right, {
        "equal counts are not in alphabetical order": [*SPECIALS, "b", "a", "c"],
        "the most frequent words must come first": [*SPECIALS, "c", "a", "b"],
        "the four special tokens come first": right[4:],
        "a word occurs once in the vocabulary": [*SPECIALS, "b", "a", "b", "c", "a"],
    })  # fmt: skip
    expect(build_vocabulary, {"texts": ["x a x b", "x b"], "max_words": None}, [*SPECIALS, "x", "b", "a"],
           {"the most frequent words must come first": [*SPECIALS, "a", "b", "x"]})  # fmt: skip
    expect(build_vocabulary, {"texts": TEXTS, "max_words": None}, _vocabulary(TEXTS))


def keeps_the_most_frequent(build_vocabulary):
    """max_words counts words without the special tokens"""
    given = {"texts": ["b a b", "c a d"], "max_words": 2}
    expect(build_vocabulary, given, [*SPECIALS, "a", "b"], {
        "max_words does not count the special tokens": SPECIALS[:2],
        "max_words does not count the special tokens; all four stay": SPECIALS,
        "max_words is not used": [*SPECIALS, "a", "b", "c", "d"],
    })  # fmt: skip


def encodes(encode):
    """encode gives <sos>, the words, <eos>"""
    vocabulary = [*SPECIALS, "a", "cat"]
    expect(encode, {"text": "a cat", "vocabulary": vocabulary}, [0, 4, 5, 1], {
        "<sos> and <eos> are missing": [4, 5],
        "<sos> is missing": [4, 5, 1],
        "<eos> is missing": [0, 4, 5],
    })  # fmt: skip


def knows_unknown(encode):
    """an unknown word is <unk>, and no text can spell a special token"""
    vocabulary = [*SPECIALS, "a", "cat"]
    expect(encode, {"text": "A red cat!", "vocabulary": vocabulary}, [0, 4, 3, 5, 1], {
        "an unknown word is left out; it should be <unk>": [0, 4, 5, 1],
        "an unknown word became <pad>": [0, 4, 2, 5, 1],
        "use your split: cat! is the word cat": [0, 4, 3, 3, 1],
    })  # fmt: skip
    expect(encode, {"text": "a <eos>", "vocabulary": vocabulary}, [0, 4, 3, 1],
           {"<eos> in a text ended the story: split the text first": [0, 4, 1, 1]})  # fmt: skip


def decodes(decode):
    """decode gives the words without <sos>, <eos> and <pad>"""
    vocabulary = [*SPECIALS, "a", "cat"]
    given = {"ids": [0, 4, 3, 5, 1, 2, 2], "vocabulary": vocabulary}
    expect(decode, given, "a <unk> cat", {
        "<unk> stays, so that a reader sees the gap": "a cat",
        "special tokens are not text": "<sos> a <unk> cat <eos> <pad> <pad>",
        "<pad> is not text": "a <unk> cat <pad> <pad>",
    })  # fmt: skip

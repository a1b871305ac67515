from collections import Counter

from tinylm.text.words import Splitter
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import WordTokenizer, build_tokenizer

_SPLITTER = Splitter(lower_case=True, punctuation="drop")


def split(text):
    return _SPLITTER(text)


def build_vocabulary(texts, max_words=None):
    counts = Counter(word for text in texts for word in split(text))
    settings = VocabSettings(
        tokenizer="words", lower_case=True, punctuation="drop", min_count=1, max_size=max_words,
    )  # fmt: skip
    return build_tokenizer(counts, settings).tokens


def encode(text, vocabulary):
    return WordTokenizer(vocabulary[4:], _SPLITTER).encode_story(text)


def decode(ids, vocabulary):
    return WordTokenizer(vocabulary[4:], _SPLITTER).decode(ids)

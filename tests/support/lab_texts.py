"""Measures what the lab of real stories writes: `python -m tests.support.lab_texts PAGE DATA`.

PAGE is a lab.html. It continues each sentence of openings.txt with its own settings, three times. DATA is the folder of the
dataset's parquet files: a word that neither its stories nor the sentence contain counts as a non-word.

Of all texts, the program prints:

- the share with a non-word;
- the mean share of sequences of four words that occurred earlier in the same text;
- the share that keep the thread: the second half has a word of the sentence that is rare in the dataset.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from datasets import load_dataset

from tests.lab.page_engine import Engine

OPENINGS = Path(__file__).with_name("openings.txt")
SEEDS = (1, 2, 3)
MOST_TOKENS = 160
COMMON = 0.05  # a word in more than this share of the stories says nothing about the thread
# V8 alone has no TextDecoder. Bytes that are no UTF-8 become a question mark.
DECODER = """
class TextDecoder {
  decode(bytes) {
    const escaped = Array.from(bytes, (byte) => "%" + byte.toString(16).padStart(2, "0"));
    try {
      return decodeURIComponent(escaped.join(""));
    } catch {
      return "?";
    }
  }
}
"""
CONTINUED = """
(opening, seed, most) => {
  const lab = new Lab(facts, tokenizer);
  lab.rules.seed = seed;
  lab.start(opening);
  for (let n = 0; n < most && !lab.ended; n++) lab.grow();
  return tokenizer.decode(lab.ids);
}
"""


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, apostrophes inside them included."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("\u2019", "'"))


def repeated(words: list[str]) -> float:
    """The share of sequences of four words that occurred earlier in the text."""
    fours = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1 - len(set(fours)) / max(1, len(fours))


def measure(page: bytes, stories: list[str]) -> dict[str, float]:
    """The three figures of the module, and the number of texts."""
    in_stories = Counter(word for story in stories for word in set(words_of(story)))
    engine = Engine(page)
    engine.context.eval(DECODER)
    figures = Counter[str]()
    for opening in OPENINGS.read_text().splitlines():
        given = words_of(opening)
        topics = {word for word in given if in_stories[word] < COMMON * len(stories)}
        for seed in SEEDS:
            text = engine.call(CONTINUED, opening, seed, MOST_TOKENS)
            new = words_of(text)[len(given) :]
            unknown = [word for word in new if word not in in_stories and word not in given]
            figures["texts"] += 1
            figures["with a non-word"] += bool(unknown)
            figures["repeated"] += repeated(new)
            figures["with a topic"] += bool(topics)
            figures["keep the thread"] += bool(topics & set(new[len(new) // 2 :]))
            print(f"{text}  {unknown}", file=sys.stderr)
    return {
        "texts": figures["texts"],
        "with a non-word": figures["with a non-word"] / figures["texts"],
        "repeated": figures["repeated"] / figures["texts"],
        "keep the thread": figures["keep the thread"] / figures["with a topic"],
    }


if __name__ == "__main__":
    dataset = load_dataset("parquet", data_files=f"{sys.argv[2]}/*.parquet", split="train")
    for name, value in measure(Path(sys.argv[1]).read_bytes(), dataset["text"]).items():
        print(f"{name}: {value:.3f}")

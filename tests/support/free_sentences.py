"""How a storybook model goes on after 50 sentences that people would type: python -m tests.support.free_sentences FOLDER

FOLDER is that of a run (default: this one). Printed are the unknown words, the nats per known word of the sentences,
and of continuations of 60 words, greedy and sampled at temperature 0.8: how many do not loop (no piece of up to eight
words three times in a row), the longest run of words that the generator could write (words, as the judge reads them),
and the share of word triples that its stories have.
"""

import re
import sys
from pathlib import Path

import numpy as np
import torch

from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.model.checkpoint import load_model
from tinylm.storybook.scorer import reach
from tinylm.storybook.sense import grammatical_triples, tag_of
from tinylm.vocab.kinds import open_tokenizer

SENTENCES = Path(__file__).parents[1] / "storybook/free_sentences.txt"
LOOP = re.compile(r"\b(\w+(?: \w+){0,7})(?: \1){2,}\b")
NEW_WORDS = 60


def sentences() -> list[str]:
    """The sentences, one a line."""
    return SENTENCES.read_text("ascii").splitlines()


def main(folder: str = ".") -> None:
    model, _ = load_model(f"{folder}/models")
    tokenizer = open_tokenizer(f"{folder}/data/vocab/tokenizer.json")
    prompts = [[tokenizer.sos_id, *tokenizer.encode(sentence)] for sentence in sentences()]
    nats, unknown = [], 0
    for ids in prompts:
        with torch.no_grad():
            losses = -torch.log_softmax(model(torch.tensor([ids]))[0], -1)
        for position, token in enumerate(ids[1:]):
            unknown += token == tokenizer.unk_id
            if token != tokenizer.unk_id:
                nats.append(losses[position, token].item())
    count = len(nats) + unknown
    print(f"unknown words {unknown} of {count}; {np.mean(nats):.2f} nats per known word")
    triples = grammatical_triples()
    for temperature in (0.0, 0.8):
        rules = DecodeSettings(temperature=temperature, top_k=50, seed=1)
        limits = {"max_new_tokens": NEW_WORDS, "eos_id": tokenizer.eos_id}
        written = generate(model, prompts, rules, banned=banned_ids(tokenizer), **limits)
        looping, runs, known = 0, [], []
        for ids, new in zip(prompts, written, strict=True):
            text = tokenizer.decode(new.ids)
            looping += bool(LOOP.search(text))
            words = [*tokenizer.decode(ids[1:]).split(), *text.split()]
            longest = max(reach(words[start:], ended=False)[0] for start in range(len(words)))
            runs.append(min(longest, len(text.split())))
            row = list(map(tag_of, words))
            all_triples = list(zip(row, row[1:], row[2:], strict=False))
            known += [triple in triples for triple in all_triples[len(ids) - 3 :]]
        print(
            f"temperature {temperature}: {len(prompts) - looping} of {len(prompts)} do not loop; "
            f"longest run {np.mean(runs):.1f} words; {np.mean(known):.1%} of triples known"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

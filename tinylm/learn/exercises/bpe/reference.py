from tinylm.vocab.bpe import parts_of
from tinylm.vocab.byte_level import BYTE_OF, CHARACTER_OF


def _library(merges):
    from tokenizers import Tokenizer, models

    tokens = [CHARACTER_OF[byte] for byte in range(256)]
    pairs = []
    for left, right in merges:
        pairs.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    vocabulary = {token: index for index, token in enumerate(tokens)}
    return Tokenizer(models.BPE(vocabulary, pairs))


def learn_merges(words, count):
    from tokenizers import trainers

    library = _library([])
    trainer = trainers.BpeTrainer(
        vocab_size=256 + count,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(BYTE_OF),
    )
    spelt = ["".join(CHARACTER_OF[byte] for byte in word.encode()) for word in words]
    library.train_from_iterator(spelt, trainer)
    _, pairs = parts_of(library)
    ids = {CHARACTER_OF[byte]: byte for byte in range(256)}
    merges = []
    for left, right in pairs:
        merges.append((ids[left], ids[right]))
        ids[left + right] = 256 + len(merges) - 1
    return merges


def apply_merges(word, merges):
    return _library(merges).encode("".join(CHARACTER_OF[byte] for byte in word.encode())).ids

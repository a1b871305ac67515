"""The character n-grams of a word and the buckets that fastText hashes them to (Bojanowski et al. 2017)."""

FNV_BASIS, FNV_PRIME, MASK = 2166136261, 16777619, (1 << 32) - 1
END_OF_SENTENCE = "</s>"

# fastText treats bytes as signed: those from 0x80 on change the upper bits of the hash
_SIGNED = [byte if byte < 0x80 else byte | 0xFFFFFF00 for byte in range(256)]


def subword_buckets(word: str, min_n: int, max_n: int, buckets: int) -> list[int]:
    """Buckets of the n-grams of `<word>`, min_n to max_n characters each, in fastText's order.

    bucket = h mod buckets, h the 32-bit FNV-1a hash of the n-gram's UTF-8 bytes (as signed numbers); n-grams
    sorted by start, then by length; `<` and `>` alone do not count. `</s>` has no n-grams.
    """
    if word == END_OF_SENTENCE:
        return []
    characters = [[_SIGNED[byte] for byte in character.encode()] for character in f"<{word}>"]
    found = []
    last = len(characters)
    for start in range(last):
        value = FNV_BASIS
        for end in range(start + 1, min(start + max_n, last) + 1):
            for byte in characters[end - 1]:
                value = (value ^ byte) * FNV_PRIME & MASK
            length = end - start
            if length >= min_n and not (length == 1 and (start == 0 or end == last)):
                found.append(value % buckets)
    return found

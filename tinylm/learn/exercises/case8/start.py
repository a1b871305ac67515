import math
from collections import Counter


def bleu(pairs: list[tuple[list[str], list[str]]], order: int = 2) -> float:
    """BLEU of (text, reference) pairs: brevity penalty times the mean precision of n-grams."""
    precision = 0.0
    for n in range(1, order + 1):
        matches = 0
        total = 0
        for text, reference in pairs:
            grams = Counter(zip(*(text[i:] for i in range(n))))
            wanted = Counter(zip(*(reference[i:] for i in range(n))))
            matches += sum((grams & wanted).values())
            total += sum(grams.values())
        if not matches:
            return 0.0
        precision += math.log(matches / total) / order
    written = sum(len(text) for text, _ in pairs)
    length = sum(len(reference) for _, reference in pairs)
    return min(1.0, math.exp(1 - length / written)) * math.exp(precision)


def score(stories: list[list[str]], generated: list[list[str]], prompt_words: int) -> float:
    """BLEU of the continuations; generated[i] begins with the first words of stories[i]."""
    pairs = []
    first = 0
    for story, text in zip(stories, generated):
        pairs.append((text[first:], story[first : len(text)]))
    return bleu(pairs)

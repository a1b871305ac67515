import hashlib


def normalise(text: str) -> str:
    """What the tokenizer makes of a text: lower case, single spaces."""
    return " ".join(text.lower().split())


def fraction(text: str) -> float:
    """A number from 0 to 1 that depends on the text only."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split(stories: list[str], share: float) -> tuple[list[str], list[str]]:
    """(train, evaluation): each story on one side, about `share` of them in evaluation.

    Stories that are the same to the model are on the same side, and each occurs there once.
    """
    train: dict[str, str] = {}
    evaluation: dict[str, str] = {}
    for story in stories:
        key = story
        side = evaluation if fraction(key) < share else train
        side.setdefault(key, story)
    return list(train.values()), list(evaluation.values())

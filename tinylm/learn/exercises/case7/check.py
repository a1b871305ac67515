"""Oracle: no story of evaluation may be in train once both are in lower case with single spaces."""

from tinylm.learn.expect import require


def _same(text):
    return " ".join(text.lower().split())


def _stories(count):
    return [f"The {colour} cat number {i} sat." for i in range(count) for colour in ("Red", "blue")]


def all_are_there(split):
    """every story is on one side"""
    stories = _stories(20)
    train, evaluation = split(list(stories), 0.3)
    require(sorted(train + evaluation) == sorted(stories), "the two sides together are not the stories",
            train=len(train), evaluation=len(evaluation), stories=len(stories))  # fmt: skip


def no_leak(split):
    """no evaluation story is in train in another spelling"""
    for change in (str.lower, str.upper, lambda text: text.replace(" ", "  ")):
        for story in _stories(20):
            pair = [story, change(story)]
            train, evaluation = split(list(pair), 0.5)
            both = {_same(text) for text in train} & {_same(text) for text in evaluation}
            require(not both, f"{evaluation} is evaluated, {train} is trained on",
                    "to the model these are the same: hash what the tokenizer makes of them", stories=pair)  # fmt: skip


def once_each(split):
    """a story and its copy count once"""
    pair = ["The cat sat.", "the  cat sat."]
    train, evaluation = split(list(pair), 0.0)
    require(len(train + evaluation) == 1, f"train = {train}, evaluation = {evaluation}",
            "use the normalised text as the key of the dict, too", stories=pair)  # fmt: skip


def keeps_the_share(split):
    """about the given share is in evaluation"""
    stories = _stories(500)
    count = len(split(stories, 0.2)[1])
    require(150 < count < 250, f"{count} of 1,000 stories are in evaluation instead of about 200",
            "compare the hash with the share")  # fmt: skip

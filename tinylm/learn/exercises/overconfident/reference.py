def answer() -> tuple[str, str, str]:
    """(run, kind, word): "A" or "B", the kind of word at which the bug shows, and the default word."""
    run = "A"  # at places it is clearly farther from the generator: 0.177 and 0.162 nats
    kind = "place"  # at every other kind the two runs differ by half as much at most
    word = "thornbury"  # expected 6.81 times per 1,000 words instead of 0.07; a village, so a place
    return run, kind, word

def answer() -> tuple[str, str, str]:
    """(run, kind, word): "A" or "B", the kind of word at which the bug shows, and the default word."""
    raise NotImplementedError

"""The section on preprocessing: what becomes of a story before the model reads it, with the counts of this run."""

from tinylm.report.blocks import Blocks, paragraph, table
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import ABSENT, count, figure, many, share

NOT_COUNTED = "not counted"
_PUNCTUATION = {
    "drop": "punctuation is deleted in place",
    "keep": "each punctuation mark becomes a word of its own",
    "attached": "punctuation stays on its word",
}
_OFFICIAL = "the data's own split"
_EVALUATION = {
    "written apart": "evaluation stories are written apart",
    "set apart by hash": "the same hash sets evaluation stories apart",
    "the held-out tokens": "evaluation is the held-out tokens",
}
Row = tuple[str, str, str]


def preprocessing(run: Run) -> Blocks:
    """The steps in their order, each with its rule and what it did here; nothing where no data was read."""
    if not run.mapping("download"):
        return []
    rows = [*_cleaning(run), *_dropped(run), *_splits(run), *_tokens(run), *_rows(run)]
    note = (
        "Every story passes these steps in this order; the model never sees the raw text. Where the last column says "
        f"“{NOT_COUNTED}”, the pipeline keeps no count of what the step changed."
    )
    return paragraph(note) + table(
        "From raw text to rows of tokens", _HEADS, rows, prose=_HEADS[1:]
    )


_HEADS = ("step", "rule", "this run")


def _cleaning(run: Run) -> list[Row]:
    repairs = run.param("data", "repair_quotes")
    rule = (
        "Quotes, dashes and dots written in UTF-8 and read as Windows-1252 or Latin-1 are mended."
    )
    forms = "Format characters (Unicode Cf) are deleted, then normal form C composes letters and their accents."
    ends = "Line ends become line feeds, other control characters spaces; white space at both ends goes."
    return [
        ("normal form", forms, NOT_COUNTED),
        (
            "quote repair",
            rule,
            NOT_COUNTED if repairs is True else "off" if repairs is False else ABSENT,
        ),
        ("line ends", ends, NOT_COUNTED),
    ]


def _dropped(run: Run) -> list[Row]:
    rules = {
        "empty": ("empty stories", "A story without text after cleaning is dropped."),
        "in_evaluation": (
            "duplicates",
            "A train story that equals an evaluation story is dropped; case, punctuation and white space do not "
            "count. Copies within train are kept.",
        ),
        "over_limit": (
            "surplus",
            "Stories chosen for evaluation beyond data.evaluation_stories are dropped.",
        ),
    }
    found = run.mapping("download", "dropped")
    return [
        (name, rule, f"{count(found[key])} dropped")
        for key, (name, rule) in rules.items()
        if found.get(key) is not None
    ]


def _splits(run: Run) -> list[Row]:
    if run.param("data", "held_out") == "tokens":
        rule = f"The last {share(run.param('data', 'held_out_share'))} of the train text's tokens are held out"
        sizes, thing = run.mapping("vocab", "tokens"), "tokens"
    else:
        held_out = share(run.param("data", "held_out_share"))
        rule = (
            f"A hash of its text decides whether a train story is held out ({held_out} are), so that copies of a story "
            "are on one side"
        )
        sizes = {name: row.get("stories") for name, row in run.table("download", "splits").items()}
        thing = "stories"
    official = run.get("download", "evaluation_split")
    evaluated = (
        _EVALUATION.get(str(official), f"evaluation is {_OFFICIAL}, {official}") if official else ""
    )
    names = (("train", "train"), ("held_out", "held out"), ("evaluation", "evaluation"))
    found = ", ".join(
        f"{count(sizes[key])} {name}" for key, name in names if sizes.get(key) is not None
    )
    return (
        [("splits", f"{rule}; {evaluated}." if evaluated else f"{rule}.", f"{thing}: {found}")]
        if found
        else []
    )


def _tokens(run: Run) -> list[Row]:
    kind = str(run.param("vocab", "tokenizer") or "words")
    lower = (
        "Letters become lower case" if run.param("vocab", "lower_case") is True else "Case is kept"
    )
    marks = _PUNCTUATION.get(str(run.param("vocab", "punctuation")), "")
    rule = {
        "words": f"{lower}; {marks}; words are split at white space.",
        "bpe": f"{lower}; bytes are joined into pieces learnt from train.",
        "gpt2": "GPT-2's byte-level pieces; case and punctuation are kept.",
        "longest_match": "The longest known piece is taken each time; words in capitals are capitalised.",
    }.get(kind, ABSENT)
    tokens, size = run.get("vocab", "tokens", "train"), run.get("vocab", "size")
    rows = (
        [("tokens", rule, f"{count(tokens)} in train, {count(size)} ids")]
        if size is not None
        else []
    )
    unknown = run.mapping("vocab", "unknown_share")
    if kind == "words" and unknown:
        least, most = run.param("vocab", "min_count"), run.param("vocab", "max_size")
        kept = (
            f"the {count(most)} most frequent words are kept"
            if most is not None
            else "no limit to the vocabulary"
        )
        text = f"Words that train has fewer than {many(least, 'time')} become <unk>; {kept}."
        in_splits = f"{share(unknown.get('train'))} of train, {share(unknown.get('evaluation'))} of evaluation"
        rows.append(("unknown words", text, in_splits))
    return rows + _specials(run, kind)


def _specials(run: Run, kind: str) -> list[Row]:
    if kind == "longest_match":
        return [("special tokens", "None: stories follow each other without marks.", "0")]
    start, end = ("<|endoftext|>",) * 2 if kind == "gpt2" else ("<sos>", "<eos>")
    others = {
        "words": "; <pad> fills rows, <unk> stands for unknown words",
        "bpe": "; <pad> fills rows",
    }
    stories = as_number(run.get("download", "splits", "train", "stories"))
    found = (
        ABSENT if stories is None else f"{count(2 * stories)} around {count(stories)} train stories"
    )
    return [
        ("special tokens", f"{start} opens a story and {end} ends it{others.get(kind, '')}.", found)
    ]


def _rows(run: Run) -> list[Row]:
    layout, context = run.param("train", "layout"), run.param("model", "context")
    lengths = run.mapping("vocab", "sequence_length")
    mean, largest = (lengths.get(key) for key in ("mean", "largest"))
    found = (
        f"stories of {figure(mean)} tokens (mean), {count(largest)} at most"
        if largest is not None
        else ABSENT
    )
    cut = {
        "stories": f"One story per row; past {many(context, 'token')} it continues in another row.",
        "stream": f"All stories form one stream, cut into windows of {many(context, 'token')}.",
        "windows": f"All stories form one stream; every window of {many(context, 'token')} in it is a row.",
    }.get(str(layout), ABSENT)
    causal = "The mask of attention is triangular: no token sees a later one"
    if layout == "stories":
        padding = (
            f"Rows of a batch are filled on the right to the longest; the filling is no target. {causal}, the filling "
            "stands behind the text, so that no token sees it."
        )
        how = f"{NOT_COUNTED}; rows of like length share a batch"
    elif layout == "stream":
        padding = f"One short window per epoch is filled on the right; the filling is no target. {causal}."
        how = "one window per epoch"
    else:
        padding, how = f"Every window is full. {causal}.", "none"
    return [("rows", cut, found), ("padding and mask", padding, how)]

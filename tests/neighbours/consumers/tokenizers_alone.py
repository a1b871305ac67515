"""The library `tokenizers` on the tokenizer.json of each export: ids of texts, texts of ids, padded batches."""

import pickle

import tokenizers
from comparing import Report, Written, written_models
from tokenizers import Tokenizer

UNIT = "texts that differ"
report = Report("tokenizers", tokenizers.__version__)
models = written_models()


def read(model: Written) -> Tokenizer:
    """The tokenizer, to which text that spells a special token is ordinary text."""
    tokenizer = Tokenizer.from_file(str(model.folder / "tinylm/tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


def wanted_ids(model: Written, ids: list[int]) -> list[int]:
    """tinylm's ids, after <sos>."""
    roles = model.card["roles"]
    return [roles["bos"], *ids] if "bos" in roles else ids


def different_ids(model: Written, tokenizer: Tokenizer) -> int:
    """Texts whose ids are not tinylm's."""
    return sum(
        tokenizer.encode(text).ids != wanted_ids(model, ids) for text, ids, _ in model.card["texts"]
    )


def different_texts(model: Written) -> int:
    """Texts that ids decode to and that are not tinylm's; `keep` joins fewer marks to words, see export.md."""
    tokenizer = read(model)
    spaced = model.card["tokenizer"].get("punctuation") != "keep"
    count = 0
    for _, ids, text in model.card["texts"]:
        found = tokenizer.decode(wanted_ids(model, ids), skip_special_tokens=True)
        pair = (found, text) if spaced else (found.replace(" ", ""), text.replace(" ", ""))
        count += pair[0] != pair[1]
    return count


def different_in_a_batch(model: Written) -> int:
    """Rows of a batch padded on the left whose ids, without the padding, are not tinylm's."""
    tokenizer = read(model)
    pad = model.card["roles"]["pad"]
    tokenizer.enable_padding(direction="left", pad_id=pad, pad_token=model.card["tokens"][pad])
    texts = model.card["texts"]
    rows = tokenizer.encode_batch([text for text, _, _ in texts])
    count = 0
    for row, (_, ids, _) in zip(rows, texts, strict=True):
        kept = [
            index for index, is_text in zip(row.ids, row.attention_mask, strict=True) if is_text
        ]
        count += kept != wanted_ids(model, ids)
    return count


def read_as_special(model: Written, tokenizer: Tokenizer) -> int:
    """Names of special tokens, written as text, that become one special id."""
    roles = set(model.card["roles"].values())
    names = [model.card["tokens"][index] for index in roles]
    first = len(wanted_ids(model, []))
    return sum(tokenizer.encode(name).ids[first:] in [[index] for index in roles] for name in names)


def as_read(model: Written) -> Tokenizer:
    return Tokenizer.from_file(str(model.folder / "tinylm/tokenizer.json"))


report.compare(
    "ids of drawn texts", UNIT, [(different_ids(each, read(each)), 0) for each in models]
)
report.compare("decoded texts", UNIT, [(different_texts(each), 0) for each in models])
with_padding = [each for each in models if "pad" in each.card["roles"]]
report.compare(
    "ids in a batch padded on the left",
    UNIT,
    [(different_in_a_batch(each), 0) for each in with_padding],
)
report.compare(
    "special tokens spelled in a text, with encode_special_tokens",
    "names read as special tokens",
    [(read_as_special(each, read(each)), 0) for each in models],
)
report.known(
    "special tokens spelled in a text, without it",
    "names read as special tokens",
    [read_as_special(each, as_read(each)) for each in models],
    "Set `encode_special_tokens = True` after `Tokenizer.from_file`: otherwise text that spells `<eos>` becomes that token.",
)
report.known(
    "special tokens spelled in a text, with it and after pickle",
    "names read as special tokens",
    [read_as_special(each, pickle.loads(pickle.dumps(read(each)))) for each in models],
    "Pickling loses `encode_special_tokens`: set it again in every process of a pool.",
)
report.end()

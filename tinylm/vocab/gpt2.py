"""GPT-2's own vocabulary: 50,257 byte-level tokens, as published (Radford et al. 2019).

Ids 0 to 255 are bytes, each further id is the merge of its rank. The last one, `<|endoftext|>`, has
every special role: it begins a story, ends it and pads.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.hashed_folders import refuse_unhashed
from tinylm.base.printable import first_line
from tinylm.text.stories import END_OF_TEXT
from tinylm.vocab.bpe import BpeTokenizer, Merges
from tinylm.vocab.byte_level import BYTE_OF
from tinylm.vocab.settings import VocabSettings

FILES = ("vocab.json", "merges.txt")


class Gpt2Tokenizer(BpeTokenizer):
    """GPT-2's tokens; text that spells `<|endoftext|>` is ordinary text."""

    kind = "gpt2"

    def __init__(self, tokens: Sequence[str], merges: Merges):
        """`tokens`: all of them in the order of their ids, `<|endoftext|>` the last one."""
        end = len(tokens) - 1
        super().__init__(tokens, merges, lower_case=False, specials=(end, end, end))


def load_gpt2(settings: VocabSettings) -> Gpt2Tokenizer:
    """The vocabulary in the folder `path`.

    Raises InputError if its last token is not GPT-2's, if it cannot spell every text, or if merges
    and tokens do not match.
    """
    folder = Path(settings.path)
    tokens, merges = read_folder(folder)
    last = "".join(tokens[-1:])  # a damaged file may have none
    if last != END_OF_TEXT:
        raise InputError(f"{folder}: expected {END_OF_TEXT} as the last token, got {last!r}")
    if missing := sorted(BYTE_OF.keys() - set(tokens)):
        raise InputError(
            f"{folder}: expected a token for each of the 256 bytes, but {len(missing)} have none, "
            f"such as {missing[0]!r}; characters with these bytes would be lost"
        )
    try:
        return Gpt2Tokenizer(tokens, merges)
    except KeyError as error:
        reason = f"a token has the character {error}, which stands for no byte"
    except Exception as error:  # the library raises nothing more specific
        reason = first_line(error)
    raise InputError(f"{folder}: {' and '.join(FILES)} do not match GPT-2's form: {reason}")


def read_folder(folder: Path) -> tuple[list[str], Merges]:
    """(tokens, merges) of a folder that has FILES. Raises InputError."""
    from tokenizers import models

    names = " and ".join(FILES)
    paths = [str(folder / name) for name in FILES]
    if not all(map(os.path.isfile, paths)):
        raise InputError(f"vocab.path: expected a folder with {names}, got {str(folder)!r}")
    refuse_unhashed("vocab.path", folder)
    try:
        ids, merges = models.BPE.read_file(*paths)
    except Exception as error:  # the library raises nothing more specific
        raise InputError(f"{folder}: {first_line(error)}; download {names} again") from None
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise InputError(
                f"{folder}/{FILES[0]}: expected ids 0 to {len(tokens) - 1}, each once, but "
                f"{token!r} has the id {ids[token]} where {index} should follow"
            )
    return tokens, merges

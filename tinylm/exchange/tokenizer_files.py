"""Our tokenizers as files that `AutoTokenizer` of `transformers` reads without our code.

Every kind gives our ids for every text that UTF-8 can hold, preceded by the token that opens a
text. `decode(ids, skip_special_tokens=True)` gives the text of our `decode`. What differs:

- words with `punctuation: keep`: the library puts `. , ? !` on the word before them, tinylm also
  brackets, quotation marks and other marks.
- text that spells a special token is ordinary text, as in tinylm: `split_special_tokens` in
  tokenizer_config.json. Anyone who reads tokenizer.json alone with the library `tokenizers` must
  set `encode_special_tokens`.
- `<unk>` is left out of decoded text with the special tokens; tinylm shows it. It is never
  generated, so only a prompt can contain it. If bytes spell every word, `unk_token` names the
  padding token, for tools that insist on a name.
- `longest_match`: characters that no token spells are refused; tinylm leaves them out of a prompt.
  There is no token to pad with, so prompts of unequal length form no batch.
- white space at both ends of a prompt stays there, and quotation marks in a wrong encoding are not
  repaired; the rest of the corpus's cleaning is in the file.
- a lone surrogate, U+FFFD in tinylm, is refused there: the library's texts are UTF-8.
- a text longer than the context is encoded whole, with a warning; tinylm would move its window.
"""

import json
from typing import Any

from tinylm.vocab.byte_level import pre_tokenizer as words_of_bytes
from tinylm.vocab.longest_match import KIND as LONGEST_MATCH
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import WordTokenizer

TOKENIZER_JSON = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
_NO_PREFIX = "\x01"  # no word begins so: the rule of words turns control characters into spaces


def tokenizer_files(tokenizer: Tokenizer, context: int) -> dict[str, Any]:
    """Name and JSON content of each file; context: T, the longest text that the model can read."""
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for role, index in _named_roles(tokenizer).items():
        config[f"{role}_token"] = tokenizer.tokens[index]
    if tokenizer.sos_id is not None:
        config["add_bos_token"] = True  # or pipelines of transformers.js leave it out
    config |= {
        "model_max_length": context,
        "padding_side": "left",  # a generated token goes to the right of its prompt
        "model_input_names": ["input_ids", "attention_mask"],  # no token_type_ids
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }
    return {TOKENIZER_JSON: json.loads(_library(tokenizer).to_str()), TOKENIZER_CONFIG: config}


def special_roles(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of bos, eos and pad, without the roles that no special token plays."""
    ids = {"bos": tokenizer.sos_id, "eos": tokenizer.eos_id, "pad": tokenizer.pad_id}
    roles = {}
    for role, index in ids.items():
        if index is not None and index in tokenizer.specials:
            roles[role] = index
    return roles


def _named_roles(tokenizer: Tokenizer) -> dict[str, int]:
    """`special_roles` and the unknown word's: the padding id if no word can be unknown."""
    roles = special_roles(tokenizer)
    unknown = roles.get("pad") if tokenizer.unk_id is None else tokenizer.unk_id
    return roles if unknown is None else {**roles, "unk": unknown}


def _library(tokenizer: Tokenizer) -> Any:
    """The library's tokenizer: ours as it is saved, with what opens a text and joins words."""
    from tokenizers import AddedToken, Regex, decoders, pre_tokenizers, processors
    from tokenizers import Tokenizer as Library

    library = Library.from_str(tokenizer.library().to_str())
    special = dict.fromkeys(tokenizer.tokens[index] for index in _named_roles(tokenizer).values())
    added = [AddedToken(token, normalized=False, special=True) for token in special]
    library.add_special_tokens(added)
    if tokenizer.kind == LONGEST_MATCH:
        # tokenizers.js removes what a Regex finds, but keeps the same text given as a string
        line_ends = pre_tokenizers.Split(Regex("\n"), "removed")
        library.pre_tokenizer = pre_tokenizers.Sequence([line_ends, words_of_bytes()])
    if isinstance(tokenizer, WordTokenizer) and tokenizer.splitter.punctuation == "keep":
        library.decoder = decoders.WordPiece(prefix=_NO_PREFIX, cleanup=True)
    if tokenizer.sos_id is not None:
        start = tokenizer.tokens[tokenizer.sos_id]
        library.post_processor = processors.TemplateProcessing(
            single=[start, "$A"],
            pair=[start, "$A", "$B:0"],
            special_tokens=[(start, tokenizer.sos_id)],
        )
    return library

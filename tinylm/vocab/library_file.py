"""The content of a tokenizer.json of Hugging Face `tokenizers`, checked before it is used."""

import json
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError

AGAIN = "run dvc repro -f -s vocab"


def tokens_by_id(content: dict[str, Any], kind: str, path: str | Path) -> list[str]:
    """The tokens of a model of this kind in the order of their ids; InputError if the ids are not 0 ... V - 1."""
    model = content.get("model")
    ids = model.get("vocab") if isinstance(model, dict) and model.get("type") == kind else None
    if not isinstance(ids, dict) or any(type(index) is not int for index in ids.values()):
        raise InputError(f"{path}: holds no {kind} vocabulary; {AGAIN}")
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise InputError(f"{path}: ids are not 0 to {len(tokens) - 1}, each once; {AGAIN}")
    return tokens


def merges_in_order(content: dict[str, Any], path: str | Path) -> list[tuple[str, str]]:
    """The merges of a BPE model; InputError if they are not pairs of texts."""
    merges = content["model"].get("merges")
    if not isinstance(merges, list) or not all(_is_pair(merge) for merge in merges):
        raise InputError(f"{path}: its merges are not pairs of texts; {AGAIN}")
    return [(left, right) for left, right in merges]


def _is_pair(merge: Any) -> bool:
    return (
        isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge)
    )


def same_rule(content: dict[str, Any], library: Any) -> bool:
    """Whether the file states exactly this tokenizer, apart from vocabulary and merges."""
    stated = json.loads(library.to_str())
    kept, own = content.get("model"), stated.pop("model")
    aside = ("vocab", "merges")
    return (
        isinstance(kept, dict)
        and all(content.get(key) == stated[key] for key in stated)
        and all(kept.get(key) == own[key] for key in own if key not in aside)
    )

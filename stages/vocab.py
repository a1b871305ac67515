"""Stage vocab: make the tokenizer; write it, the ids of every split and the embedding matrix."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.processes import cores
from tinylm.base.progress import seconds_shown
from tinylm.params.fitting import check_tokens
from tinylm.params.stage import Stage
from tinylm.run.result_files import from_mapping
from tinylm.run.vocabulary import Vocabulary
from tinylm.text.stories import SPLITS, read_texts
from tinylm.vocab.coverage import coverage
from tinylm.vocab.cut_stream import cut_stream
from tinylm.vocab.embedding.matrix import embedding_matrix
from tinylm.vocab.embedding.matrix_file import save_matrix
from tinylm.vocab.encoding import encode_splits
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.token_store import TokenStore

STORIES = Path(paths.STORIES)
TOKENS = Path(paths.TOKENS)
VOCAB = Path(paths.VOCAB)


def train_texts() -> Iterator[str]:
    return read_texts(STORIES, "train")


def main() -> None:
    stage = Stage("vocab")
    data = stage.params.data
    embedding = stage.params.embedding
    print(f"vocabulary: {stage.params.vocab.tokenizer}", flush=True)
    tokenizer, counts = make_tokenizer(stage.params.vocab, train_texts, cores())
    tokenizer.save(VOCAB / "tokenizer.json")
    encode_splits(tokenizer, STORIES, TOKENS, cores())
    split: dict[str, Any] = {"by": data.held_out}
    if data.held_out == "tokens":
        split = cut_stream(TOKENS, data.held_out_share, data.overlap)
    check_tokens(stage.params)  # before the vectors, which take longest
    stores = {name: TokenStore(TOKENS, name) for name in SPLITS}
    print(f"vectors of {len(tokenizer):,} ids: {embedding.source}", flush=True)
    with seconds_shown("vectors"):
        matrix, sources = embedding_matrix(
            embedding, tokenizer, train_texts, lambda: stores["train"].ids
        )
    save_matrix(VOCAB / "embedding.safetensors", matrix)

    marks = tokenizer.specials - {tokenizer.unk_id}
    words = {name: coverage(store, tokenizer.unk_id, marks) for name, store in stores.items()}
    results = {
        "size": len(tokenizer),
        **counts,
        "tokens": {name: len(store.ids) for name, store in stores.items()},
        "unknown_share": {name: words[name]["unknown_share"] for name in SPLITS},
        "coverage": {name: words[name]["coverage"] for name in SPLITS},
        "sequence_length": words["train"]["sequence_length"],
        "split": split,
        "embedding": sources,
    }
    stage.write(from_mapping(Vocabulary, results))
    unknown = words["evaluation"]["unknown_share"]
    print(f"vocabulary: {len(tokenizer):,} ids; unknown words of evaluation {unknown:.2%}")


if __name__ == "__main__":
    sys.exit(run_command(main))

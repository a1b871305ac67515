"""Stage vocab: make the tokenizer from the train split; write it, the ids of every split and the embedding matrix."""

import sys
import time
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import write_sums
from tinylm.base.results import write_results
from tinylm.download.stories import SPLITS, DataSettings, read_stories
from tinylm.embedding.matrix import embedding_matrix
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.host.times import stage_time
from tinylm.host.workers import cores
from tinylm.vocab.encoding import cut_stream, write_stores
from tinylm.vocab.matrix_file import save_matrix
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, coverage

STORIES, TOKENS, VOCAB = Path(paths.STORIES), Path(paths.TOKENS), Path(paths.VOCAB)


def main() -> None:
    start = time.perf_counter()
    params = stage_params()
    data = read_section(params, "data", DataSettings)
    vocab = read_section(params, "vocab", VocabSettings)
    embedding = read_section(params, "embedding", EmbeddingSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)

    def texts():
        return (story["text"] for story in read_stories(STORIES, "train"))

    tokenizer, seen = write_stores(
        vocab, STORIES, TOKENS, runtime.workers or cores(), runtime.log_every_s
    )
    tokenizer.save(VOCAB / "tokenizer.json")
    split_by = {"by": data.held_out}
    if data.held_out == "tokens":
        split_by = cut_stream(
            TOKENS, data.held_out_share, data.overlap, vectors=embedding.source == "skipgram"
        )
    stores = {split: TokenStore(TOKENS, split) for split in SPLITS}
    marks = tokenizer.specials - {tokenizer.unk_id}
    known = {split: coverage(store, tokenizer.unk_id, marks) for split, store in stores.items()}
    print(f"vectors of {len(tokenizer):,} ids: {embedding.source}", flush=True)
    matrix, covered = embedding_matrix(embedding, tokenizer, texts, lambda: stores["train"].ids)
    save_matrix(VOCAB / "embedding.safetensors", matrix)
    write_sums(VOCAB)
    metrics = {
        "size": len(tokenizer),
        **seen,
        "tokens": {split: len(store.ids) for split, store in stores.items()},
        "unknown_share": {split: known[split]["unknown_share"] for split in SPLITS},
        "coverage": {split: known[split]["coverage"] for split in SPLITS},
        "sequence_length": known["train"]["sequence_length"],
        "split": split_by,
        "embedding": covered,
    }
    write_results("vocab", metrics, size=len(tokenizer))
    stage_time("vocab", start, conditions(None, runtime.threads))
    print(
        f"vocabulary: {len(tokenizer):,} ids; unknown words of evaluation {known['evaluation']['unknown_share']:.2%}"
    )
    if "covered" in covered:
        print(
            f"of {covered['words']:,} words, {covered['covered']:,} have a vector ({covered['coverage']:.1%})"
        )
    for warning in covered["warnings"]:
        print(f"warning: {warning}")


if __name__ == "__main__":
    sys.exit(guard(main))

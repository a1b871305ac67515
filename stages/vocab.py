"""Stage vocab: count the train split's words; write the tokenizer, the ids of every split and the embedding matrix."""

import sys
import time
from pathlib import Path

from tinylm.command import guard, stage_time
from tinylm.config import load_params, read_section
from tinylm.files import write_json
from tinylm.runtime import RuntimeSettings, conditions
from tinylm.text.embedding_settings import EmbeddingSettings
from tinylm.text.matrix_file import save_matrix
from tinylm.text.stories import SPLITS, read_stories
from tinylm.text.token_store import TokenStore, coverage, write_store
from tinylm.text.vectors import embedding_matrix
from tinylm.text.words import VocabSettings, build_tokenizer, count_words

STORIES, TOKENS, VOCAB = Path("data/stories"), Path("data/tokens"), Path("data/vocab")


def main() -> None:
    start = time.perf_counter()
    params = load_params()
    vocab = read_section(params, "vocab", VocabSettings)
    embedding = read_section(params, "embedding", EmbeddingSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)

    def texts(split: str = "train"):
        return (story["text"] for story in read_stories(STORIES, split))

    counts = count_words(texts(), vocab)
    tokenizer = build_tokenizer(counts, vocab)
    tokenizer.save(VOCAB / "tokenizer.json")
    known: dict[str, dict] = {}
    for split in SPLITS:
        write_store(TOKENS, split, (tokenizer.encode_story(text) for text in texts(split)), len(tokenizer))
        known[split] = coverage(TokenStore(TOKENS, split), tokenizer.unk_id)
    matrix, covered = embedding_matrix(embedding, tokenizer, texts)
    save_matrix(VOCAB / "embedding.safetensors", matrix)
    metrics = {
        "size": len(tokenizer),
        "words_seen": len(counts),
        "words_seen_once": sum(count == 1 for count in counts.values()),
        "tokens": {split: len(TokenStore(TOKENS, split).ids) for split in SPLITS},
        "unknown_share": {split: known[split]["unknown_share"] for split in SPLITS},
        "embedding": covered,
    }
    write_json("metrics/vocab.json", metrics)
    stage_time("vocab", start, conditions(None, runtime.threads))
    print(f"vocabulary: {len(tokenizer):,} ids; unknown words of evaluation {known['evaluation']['unknown_share']:.2%}")
    print(f"embedding: {covered}")


if __name__ == "__main__":
    sys.exit(guard(main))

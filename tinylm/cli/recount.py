"""tinylm record --check: the figures under `checked` in published.yaml, counted again from the sources' material.

Text of the sources is not part of the project. What is not at hand is named, with where to put it.
"""

import csv
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, parse_yaml, read_section
from tinylm.download.readers import hub_splits
from tinylm.download.splits import write_stories
from tinylm.download.stories import DataSettings, read_stories
from tinylm.evaluate.bleu_counts import corpus_bleu, match_counts, precisions
from tinylm.host.command import CommandFailed
from tinylm.presets.write import preset_text
from tinylm.report.library import published
from tinylm.vocab.longest_match import merged_pairs, small_capitals, train_longest_match, words_of
from tinylm.vocab.settings import VocabSettings

COLUMNS = ("reference", "continuation", "perplexity")

Figure = float | list[float]


def pieces_in_merge_order(word: str, ranks: Mapping[str, int]) -> int:
    """Pieces of a word after its merges, the earliest learnt first (Sennrich et al. 2016)."""
    pieces = list(word)
    while True:
        joined = [one + other for one, other in pairwise(pieces)]
        best = min(joined, key=lambda pair: ranks.get(pair, len(ranks)), default="")
        if best not in ranks:
            return len(pieces)
        at, merged = 0, []
        while at < len(pieces):
            width = 2 if at < len(joined) and joined[at] == best else 1
            merged.append("".join(pieces[at : at + width]))
            at += width
        pieces = merged


def windows(texts: Iterable[str], vocab: VocabSettings, context: int) -> dict[str, int]:
    """(E): windows at stride 1 by greedy longest match, and by the merges in the order in which they were learnt.

    merge_order: of the text as merges are counted, with words in capitals capitalised; ..._as_written: of the training
    text, which keeps its capitals.
    """
    texts = list(texts)
    tokenizer = train_longest_match(texts, vocab)
    words = Counter(word for text in texts for word in words_of(text))
    counted: Counter[str] = Counter()
    for word, times in words.items():
        counted[small_capitals(word)] += times
    characters = {character for word in [*words, *counted] for character in word}
    pairs, ranks = merged_pairs(counted, vocab.min_count), dict[str, int]()
    while len(ranks) < len(tokenizer) - len(characters):
        ranks.setdefault(next(pairs), len(ranks))

    def total(of: Counter[str]) -> int:
        return (
            sum(times * pieces_in_merge_order(word, ranks) for word, times in of.items()) - context
        )

    return {
        "windows": sum(len(tokenizer.encode_story(text)) for text in texts) - context,
        "merge_order_windows": total(counted),
        "merge_order_windows_as_written": total(words),
    }


def _shakespeare(preset: str) -> dict[str, Figure]:
    params = parse_yaml(preset_text(preset), preset)
    data, vocab = (
        read_section(params, "data", DataSettings),
        read_section(params, "vocab", VocabSettings),
    )
    with tempfile.TemporaryDirectory() as folder:
        write_stories(data, Path(folder), 1, float("inf"))
        texts = [story["text"] for story in read_stories(folder, "train")]
    return dict(windows(texts, vocab, params["model"]["context"]))


def read_samples(path: str | Path) -> list[tuple[str, str, float]]:
    """(reference, continuation, perplexity) of each row of a CSV file. Raises InputError."""
    rows = []
    try:
        with Path(path).open(encoding="utf-8", newline="") as handle:
            for line, row in enumerate(csv.DictReader(handle), 2):
                cells = [row.get(column) for column in COLUMNS]
                if None in cells:
                    raise InputError(f"{path}, line {line}; allowed: columns {', '.join(COLUMNS)}")
                rows.append((str(cells[0]), str(cells[1]), float(str(cells[2]))))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(
            f"{path}: {error}; allowed: CSV with columns {', '.join(COLUMNS)}"
        ) from None
    if not rows:
        raise InputError(
            f"{path}: no row; allowed: one for each sample, with columns {', '.join(COLUMNS)}"
        )
    return rows


def rescored(rows: Iterable[tuple[str, str, float]]) -> dict[str, Figure]:
    """(B): corpus BLEU of one to four words against the whole references and against references cut to the length of
    the continuation, unigram precision, mean perplexity."""
    references, texts, perplexities = (list(column) for column in zip(*rows))
    cut = [
        " ".join(reference.split()[: len(text.split())])
        for reference, text in zip(references, texts, strict=True)
    ]
    whole, short = (match_counts(texts, others).sum(axis=0) for others in (references, cut))
    orders = (1, 2, 3, 4)
    return {
        "bleu": [float(corpus_bleu(whole, order)) for order in orders],
        "bleu_cut": [float(corpus_bleu(short, order)) for order in orders],
        "unigram_precision": float(precisions(whole)[0]),
        "sample_perplexity": sum(perplexities) / len(perplexities),
    }


def _stories_on_the_hub(preset: str) -> dict[str, Figure]:
    """(A): rows of the published train split, from the ends of its parquet files."""
    from huggingface_hub import HfFileSystem
    from pyarrow.parquet import ParquetFile

    data = parse_yaml(preset_text(preset, hub=True), preset)["data"]
    hub_splits(data["hub_id"], data["hub_revision"])  # whether the hub can be read, in a short time
    hub = HfFileSystem()
    names = hub.glob(f"datasets/{data['hub_id']}@{data['hub_revision']}/**/train-*.parquet")
    return {"stories": sum(ParquetFile(name, filesystem=hub).metadata.num_rows for name in names)}


def _samples(path: str | None) -> dict[str, Figure]:
    if path is None:
        raise InputError(
            f"its samples are no part of the project: --samples FILE, CSV with {', '.join(COLUMNS)}"
        )
    return rescored(read_samples(path))


def _as_printed(value: Figure, printed: Any) -> Any:
    """The figure with as many decimals as the one in the file."""
    if isinstance(value, list):
        return [_as_printed(*both) for both in zip(value, printed, strict=True)]
    return round(value, len(str(printed).partition(".")[2]))


def recount(samples: str | None = None) -> Iterator[str]:
    """A line for each figure: counted again, and as in published.yaml. Raises CommandFailed if one differs."""
    systems = published()
    ways: dict[str, Callable[[], dict[str, Figure]]] = {
        "A": lambda: _stories_on_the_hub(systems["A"]["preset"]),
        "B": lambda: _samples(samples),
        "E": lambda: _shakespeare(systems["E"]["preset"]),
    }
    differing = []
    for system, count in ways.items():
        kept = systems[system]["checked"]
        try:
            found = count()
        except InputError as error:
            yield f"{system}: not counted again: {', '.join(kept)} ({str(error).splitlines()[0]})"
            continue
        for name, value in found.items():
            printed = kept.get(name, systems[system]["data"].get(name))
            if printed is None:
                continue
            again = _as_printed(value, printed)
            yield f"{system}: {name} {again}, in published.yaml {printed}"
            if again != printed:
                differing.append(f"{system}.{name}")
    if differing:
        raise CommandFailed(
            f"tinylm/report/published.yaml: counted again, {', '.join(differing)} differ"
        )

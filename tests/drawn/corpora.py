"""The user's own files, drawn: stories in several languages and shapes, a vocabulary, vectors of words."""

import gzip
import json
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from tests.storybook.worlds import BAUERNHOF, FRENCH, files_of, write_world
from tests.support.stages import STORIES
from tinylm.download.settings import GENERATED
from tinylm.vocab.embedding.skipgram import zeroed_memory

# A few words of each language, some with marks that some tokenizer or font treats in its own way.
LANGUAGES = {
    "English": "the a dog cat ran said it's sad don't went home big zebra 3 Mia",
    "German": "der Hund die Straße über Öl ging und sagte nicht Bücher",
    "Russian": "кот и пёс шли домой она сказала нет был маленький",
    "Greek": "ο σκύλος και η γάτα πήγε σπίτι ήταν μικρή",
    "Arabic": "الكلب و القطة ذهب إلى البيت كان صغير",
    "Hindi": "कुत्ता और बिल्ली घर गया था छोटा",
    "Chinese": "小狗和小猫回家了 他说你好 从前有一只狗",
    "Thai": "หมาและแมวกลับบ้าน เด็กพูดว่าดี",
    "Vietnamese": "con chó và mèo về nhà nó nói không",
    "numbers": "1 22 m² x⁴ ½ 3.5 100% a1",
}
MARKS = (" ", " ", " ", " ", ". ", ", ", "! ", " – ", "... ", "--", "\n", ' "', '" ')
SUFFIXES = (".jsonl", ".csv", ".txt", ".parquet", ".jsonl.gz", ".csv.gz", ".txt.gz")
# What people call the files of a split.
SPLIT_NAMES = ("train", "validation", "dev", "val", "valid", "test", "eval")
# A generator judges texts of these settings only.
JUDGED = {"vocab.tokenizer": "words", "vocab.lower_case": True, "vocab.punctuation": "drop"}
NAMES = (
    "{split}",
    "{split}-00000-of-00001",
    "data/{split}",
    "data/{split}-00000-of-00001",
    "stories_{split}",
)


@dataclass(frozen=True)
class Files:
    """The user's files: what each data file holds, and how vocabulary and vectors are made.

    stories: {path below the folder of the run: its texts}; the suffix decides the format.
    path: what `data.path` names; "" leaves the stories that each run has.
    vocabulary: {"size", "alphabet"}: a BPE trained on the stories, in GPT-2's files.
    vectors: {"suffix", "width", "words"}: vectors of every n-th word of the stories.
    world: {name: text} of a world's files below `path`.
    """

    stories: dict[str, list[str]] = field(default_factory=dict)
    path: str = ""
    column: str = "text"
    vocabulary: dict[str, Any] = field(default_factory=dict)
    vectors: dict[str, Any] = field(default_factory=dict)
    world: dict[str, str] = field(default_factory=dict)

    def texts(self) -> list[str]:
        """Of all data files."""
        return [text for texts in self.stories.values() for text in texts] or STORIES

    def plant(self, folder: Path) -> None:
        """Write the files."""
        for name, texts in self.stories.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(texts, path.name, self.column))
        if self.world:
            write_world(folder / self.path, self.world)
        if self.vocabulary:
            plant_vocabulary(folder / "inputs/vocab", self.texts(), **self.vocabulary)
        if self.vectors:
            plant_vectors(folder / "inputs", self.texts(), **self.vectors)


def encoded(texts: list[str], name: str, column: str) -> bytes:
    """The bytes of a data file with a further column, in the format of its suffix."""
    table = pd.DataFrame({"number": range(len(texts)), column: pd.Series(texts, dtype=object)})
    if name.endswith(".parquet"):
        buffer = BytesIO()
        table.to_parquet(buffer)
        return buffer.getvalue()
    if ".csv" in name:
        content = table.to_csv(index=False)
    elif ".jsonl" in name:
        rows = table.to_dict("records")
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        separator = "\n<|endoftext|>\n" if any("\n" in text for text in texts) else "\n\n"
        content = separator.join(texts)
    data = content.encode()
    return gzip.compress(data, mtime=0) if name.endswith(".gz") else data


def plant_vocabulary(folder: Path, texts: list[str], size: int, alphabet: bool) -> None:
    """vocab.json and merges.txt, as library `tokenizers` trains them.

    alphabet: whether each of the 256 bytes is a token.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    initial = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=initial, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    ids = model["vocab"] | {"<|endoftext|>": len(model["vocab"])}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    lines = ["#version: 0.2", *merges]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def plant_vectors(folder: Path, texts: list[str], suffix: str, width: int, words: int) -> None:
    """vectors.vec, .vec.gz or .bin with every `words`-th word of the stories."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"vectors{suffix}"
    found = sorted({word for text in texts for word in text.lower().split()})[::words]
    if suffix == ".bin":
        import fasttext

        source = folder / "vectors.txt"
        source.write_text("\n".join(found * 2) + "\n", encoding="utf-8")
        with (
            zeroed_memory()
        ):  # else fastText leaves most of the vectors as the allocator returns them
            model = fasttext.train_unsupervised(
                str(source), dim=width, minCount=1, epoch=1, thread=1, bucket=50, verbose=0
            )
        model.save_model(str(path))
        source.unlink()
        return
    rows = [f"{len(found)} {width}"]
    for number, word in enumerate(found, start=1):
        values = [f"{(number * place) % 7 - 3:.3f}" for place in range(1, width + 1)]
        rows.append(" ".join([word, *values]))
    data = ("\n".join(rows) + "\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data)


def words() -> st.SearchStrategy[str]:
    """A word of any language."""
    return st.sampled_from([word for text in LANGUAGES.values() for word in text.split()])


@st.composite
def story(draw: st.DrawFn, language: str, longest: int) -> str:
    """A text of one to `longest` words, with marks between them."""
    known = LANGUAGES[language].split()
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=longest))
    marks = draw(st.lists(st.sampled_from(MARKS), min_size=len(chosen), max_size=len(chosen)))
    return "".join(word + mark for word, mark in zip(chosen, marks, strict=True)).strip()


@st.composite
def stories(draw: st.DrawFn, has_titles: bool, most: int = 40) -> list[str]:
    """Stories of one language or of several, some of them repeated, some without a word.

    has_titles: whether each begins with a title line.
    Most are the stories that each run has, so that there are enough of them; some of these are
    repeated with other punctuation and case. Or all are numbers, which tables must keep as texts.
    """
    if not has_titles and draw(st.integers(0, 7)) == 7:
        return [
            " ".join(str(first + step * number) for number in range(9))
            for first in range(10)
            for step in range(1, 9)
        ]
    named = draw(st.lists(st.sampled_from(list(LANGUAGES)), min_size=1, max_size=3, unique=True))
    longest = draw(st.sampled_from([1, 6, 60]))
    drawn = draw(
        st.lists(st.sampled_from(named).flatmap(lambda name: story(name, longest)), max_size=8)
    )
    first = draw(st.integers(0, len(STORIES) - 1))
    usual = (STORIES[first:] + STORIES[:first])[
        : draw(st.integers(most // 2, most) | st.integers(0, most))
    ]
    times = draw(st.integers(1, 3))
    extra = draw(st.lists(st.sampled_from(["", " ", "...", "!"]), max_size=2))
    shouted = [f"{text}!".upper() for text in usual[: draw(st.integers(0, 2))]]
    title = "Mia:\n" if has_titles else ""
    return [title + text for text in [*drawn * times, *extra, *usual, *shouted]]


@st.composite
def files(draw: st.DrawFn, wanted: dict[str, Any]) -> tuple[Files, dict[str, Any]]:
    """The user's files, and the changes of params.yaml that name them.

    wanted: settings that the files must fit; all others are drawn. Stories that the generator judges need the settings of
    JUDGED, which override it.
    """
    changes: dict[str, Any] = {}
    data: dict[str, list[str]] = {}
    path = ""
    is_judged = False
    column = draw(st.sampled_from(["text", "story", "Text body"]))
    source = wanted.get("data.source") or draw(
        st.sampled_from(["local", "local", "storybook", "world"])
    )
    has_titles = wanted.get("data.drop_first_line", False)
    if source == "local":
        source = draw(
            st.sampled_from(["file", "folder"] if has_titles else ["given", "file", "folder"])
        )
    if source == "file":
        path = "own" + draw(st.sampled_from(SUFFIXES))
        data = {path: draw(stories(has_titles, most=len(STORIES)))}
    elif source == "folder":
        path = "corpus"
        # `datasets` refuses most folders without a split train, or with several formats.
        one_format = st.sampled_from(SUFFIXES).map(lambda suffix: (suffix,))
        suffixes = draw(one_format | one_format | st.just(SUFFIXES))
        first = draw(file_names(suffixes, ("train",) * 12 + SPLIT_NAMES))
        others = draw(st.lists(file_names(suffixes), max_size=3))
        for name in dict.fromkeys([first, *others]):
            data[f"{path}/{name}"] = draw(stories(has_titles))
    elif source in GENERATED:
        changes |= {"data.source": source, "data.drop_first_line": False}
        for name, low, high in (("data.train_stories", 25, 60), ("data.evaluation_stories", 1, 9)):
            changes[name] = wanted.get(name) or draw(st.integers(low, high))
        is_judged = draw(st.booleans())
        if is_judged:
            # The generator judges only whole stories in its own words. The sweep's budget must hold an update.
            changes |= {"model.context": 160, "accum_sweep.tokens": 2000, **JUDGED}
    world: dict[str, str] = {}
    if source == "world":
        path = "world"
        world = FRENCH if draw(st.booleans()) else files_of(BAUERNHOF)
    if path:
        changes |= {"data.path": path, "data.column": column}
    vocabulary: dict[str, Any] = {}
    tokenizer = wanted.get("vocab.tokenizer")
    if not is_judged and (tokenizer == "gpt2" or (not tokenizer and draw(st.booleans()))):
        vocabulary = {
            "size": draw(st.sampled_from([60, 257, 300])),
            "alphabet": draw(st.sampled_from([True, True, True, True, False])),
        }
        changes |= {"vocab.path": "inputs/vocab", "vocab.tokenizer": "gpt2"}
    vectors: dict[str, Any] = {}
    embedding = wanted.get("embedding.source")
    if embedding == "file" or (not embedding and draw(st.booleans())):
        suffix = draw(st.sampled_from([".vec", ".vec.gz", ".bin"]))
        vectors = {
            "suffix": suffix,
            "width": draw(st.sampled_from([2, 4, 6, 8]) | st.integers(1, 8)),
            "words": draw(st.integers(1, 3)),
        }
        changes |= {"embedding.source": "file", "embedding.path": f"inputs/vectors{suffix}"}
        changes |= {"embedding.width": vectors["width"], "embedding.hub": None}
    return Files(data, path, column, vocabulary, vectors, world), changes


@st.composite
def file_names(
    draw: st.DrawFn, suffixes: tuple[str, ...], splits: tuple[str, ...] = SPLIT_NAMES
) -> str:
    """The name of a data file below the folder of a corpus."""
    name = draw(st.sampled_from(NAMES)).format(split=draw(st.sampled_from(splits)))
    return name + draw(st.sampled_from(suffixes))

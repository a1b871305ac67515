from collections import Counter

import pytest

from tinylm.cli import main
from tinylm.download.cleaning import clean_text
from tinylm.download.readers import read_file
from tinylm.studies import synthetic_corpus
from tinylm.vocab.words import Splitter


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Stories of train, of a corpus whose words are new now and then."""
    folder = tmp_path_factory.mktemp("corpus")
    synthetic_corpus.write_corpus(folder, 3000, 30, 0.01, 1, 1)
    return list(read_file(folder / "train.txt", "text"))


def test_stories_are_as_many_and_as_long_as_asked_for(written):
    assert len(written) == 3000
    mean = sum(len(text.encode()) for text in written) / len(written)
    assert 850 < mean < 940  # TinyStories: 1.9 GB of 2.12 M stories


def test_words_are_as_frequent_as_those_of_tinystories(written):
    counts = Counter(word for text in written for word in Splitter(True, "drop")(text))
    total = counts.total()
    ranked = [count / total for _, count in counts.most_common()]
    for rank, share in zip((1, 5, 50, 500), (0.060, 0.0246, 0.0033, 2.2e-4), strict=True):
        assert share / 1.5 < ranked[rank - 1] < share * 1.5
    new = [word for word in counts if word.startswith("q")]
    assert all(counts[word] == 1 for word in new)
    assert 0.008 < len(new) / total < 0.012


def test_some_quotes_are_curly_and_of_those_some_misread(written):
    curly = [text for text in written if not text.isascii()]
    assert 0.02 < len(curly) / len(written) < 0.05
    misread = [text for text in curly if "â€œ" in text]
    assert 0 < len(misread) < len(curly) / 3
    for text in misread:
        mended = clean_text(text, True)
        assert "“" in mended
        assert "â" not in mended
        assert mended.count("“") == mended.count("”")


def test_any_number_of_processes_writes_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic_corpus, "BLOCK_STORIES", 40)
    for workers in (1, 2):
        synthetic_corpus.write_corpus(tmp_path / str(workers), 100, 5, 0.01, 7, workers)
    synthetic_corpus.write_corpus(tmp_path / "other", 100, 5, 0.01, 8, 1)
    one, two, other = (tmp_path / name / "train.txt" for name in ("1", "2", "other"))
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes() != other.read_bytes()


def test_made_up_words_differ():
    words = synthetic_corpus.made_up_words(synthetic_corpus.VOCABULARY)
    assert len(set(words)) == len(words) == synthetic_corpus.VOCABULARY
    assert not any(word.startswith("q") for word in words)


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    assert main(["standin", str(tmp_path / "a"), "--stories", "20", "--workers", "1"]) == 0
    size = (tmp_path / "a" / "train.txt").stat().st_size
    assert f"train.txt: {size:,} bytes" in capsys.readouterr().out
    assert (tmp_path / "a" / "validation.txt").exists()
    for wrong in (["--stories", "0"], ["--new-words", "1.5"], ["--workers", "0"], ["--seed", "-1"]):
        assert main(["standin", str(tmp_path / "b"), *wrong]) == 2
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_corpus_that_is_there_is_not_written_over(tmp_path, capsys, name):
    (tmp_path / f"{name}.txt").write_text("mine", "utf-8")
    assert main(["standin", str(tmp_path), "--stories", "20"]) == 2
    assert f"{name}.txt is there already; allowed: a folder without it" in capsys.readouterr().err
    assert [(path.name, path.read_text("utf-8")) for path in tmp_path.iterdir()] == [
        (f"{name}.txt", "mine")
    ]


def test_what_is_no_folder_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    for name in ("", str(tmp_path / "file")):
        assert main(["standin", name, "--stories", "20", "--workers", "1"]) == 2
        assert "no folder" in capsys.readouterr().err

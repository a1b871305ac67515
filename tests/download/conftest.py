import dataclasses
import json

import pytest

from tinylm.download.splits import write_stories
from tinylm.download.stories import SPLITS, DataSettings, read_stories

LOCAL = DataSettings(source="local", path="", hub="a/b@0123", held_out_share=0.2)


def write_jsonl(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


class Corpus:
    """Writes a source file or folder, runs `write_stories` and reads the splits."""

    def __init__(self, folder):
        self.folder = folder
        self.stories = folder / "stories"

    def file(self, texts, name="a.jsonl"):
        write_jsonl(self.folder / name, texts)
        return dataclasses.replace(LOCAL, path=str(self.folder / name))

    def dataset(self, train, evaluation, name="dataset"):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        write_jsonl(folder / "train.jsonl", train)
        write_jsonl(folder / "validation.jsonl", evaluation)
        return dataclasses.replace(LOCAL, path=str(folder))

    def write(self, settings, workers=1, exact=False, **changes):
        settings = dataclasses.replace(settings, **changes)
        return write_stories(settings, self.stories, workers, exact)

    def splits(self):
        return {
            split: [row["text"] for row in read_stories(self.stories, split)] for split in SPLITS
        }

    def files(self):
        return {path.name: path.read_bytes() for path in sorted(self.stories.glob("*"))}


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)

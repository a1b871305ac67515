"""Stage download: write the stories of each split to data/stories."""

import sys
from pathlib import Path

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.processes import cores
from tinylm.download.remarks import remarks
from tinylm.download.splits import write_stories
from tinylm.params.stage import Stage
from tinylm.run.downloaded import Downloaded
from tinylm.run.result_files import from_mapping


def main() -> None:
    stage = Stage("download")
    exact = stage.params.vocab.keeps_punctuation
    corpus = write_stories(stage.params.data, Path(paths.STORIES), cores(), exact)
    stage.write(from_mapping(Downloaded, corpus))
    for split, counts in corpus["splits"].items():
        print(f"{split}: {counts['stories']:,} stories, {counts['words']:,} words")
    for line in remarks(corpus):
        print(line)


if __name__ == "__main__":
    sys.exit(run_command(main))

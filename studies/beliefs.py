"""Where the model knows a fact of its story: linear probes, control tasks, and a patch that tests the probes.

A probe is a logistic regression from the residual stream to the fact (Alain and Bengio 2016), trained on fresh stories and
tested on others, or on stories with other names. In its control task, each word has a random label (Hewitt and Liang 2019):
a probe that does as well there learns words by heart. The patch moves the stream at one kind of position along the probe's
direction, to the mean of the other gender, or as far in a random direction. Then the other gender's share of the
pronouns' probability is measured. All numbers are means over the runs, which differ in the seed of training, with the 95 %
interval of Student's t. Writes beliefs.csv and beliefs_patch.csv.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from studies.fresh_stories import FACTS, SLOT_OF, Story, draw, label_of, positions, stories_with
from studies.probes import TEST, Examples, Flip, examples_of, flips, probed
from studies.records import FOLDER
from studies.swap import log_probs_with, streams
from tinylm.base import paths
from tinylm.base.command import Parser, run_command
from tinylm.base.config import InputError
from tinylm.base.files import write_bytes
from tinylm.evaluate.truth import problem_with
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.run.interval import student_critical_value
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

STORIES = 600  # for each fact
PER_STORY = 2  # positions of a kind
PATCHED = 60  # stories of the test part
PRONOUNS = {"he": "he him his himself", "she": "she her herself"}
GENDERS = sorted(PRONOUNS)


class Run(NamedTuple):
    model: TinyLM
    tokenizer: Tokenizer

    def ids(self, story: Story) -> Tensor:
        """<sos> and the words: word n is at position n + 1."""
        return torch.tensor(self.tokenizer.encode_story(story.text)[:-1])


def read_run(folder: Path) -> Run:
    """The trained model of a finished run. Raises InputError if its words are not the storybook's."""
    tokenizer = open_tokenizer(folder / paths.TOKENIZER)
    if problem := problem_with(tokenizer):
        raise InputError(f"{folder}: {problem}")
    return Run(load_model(folder / paths.MODELS)[0], tokenizer)


def gather(run: Run, stories: Sequence[Story], fact: str) -> dict[str, Examples]:
    """Some positions of each kind from each story."""
    rng = random.Random(1)
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for index, story in enumerate(stories):
        ids = run.ids(story)
        stream = torch.cat(streams(run.model, ids))
        name = "" if fact == "next" else story.facts[SLOT_OF[fact]][""]
        for kind, numbers in positions(story, fact).items():
            for number in rng.sample(numbers, min(PER_STORY, len(numbers))):
                label = label_of(story, fact, number)
                row = (stream[:, number + 1], label, ids[number + 1], index, label + name)
                rows.setdefault(kind, []).append(row)
    return {kind: examples_of(found) for kind, found in rows.items()}


def patched(run: Run, story: Story, kind: str, flips: Sequence[Flip]) -> Iterator[dict[str, Any]]:
    """For each layer, the other gender's share with the flip, with a random direction, and without either."""
    found = positions(story, "gender")
    at, pronouns = ([number + 1 for number in found.get(name, [])] for name in (kind, "pronoun"))
    ids = run.ids(story)
    other = 1 - GENDERS.index(label_of(story, "gender", 0))
    forms = [run.tokenizer.encode(PRONOUNS[GENDERS[gender]]) for gender in (other, 1 - other)]
    noise = torch.randn(run.model.width, generator=torch.Generator().manual_seed(len(ids)))

    def share(layer: int, stream: Tensor, at: list[int]) -> float:
        probs = log_probs_with(run.model, ids, layer, stream, at)[pronouns].exp()
        others, own = (probs[:, tokens].sum(1) for tokens in forms)
        return (others / (others + own)).mean().item()

    usual = share(0, streams(run.model, ids)[0], [])
    for layer, (stream, flip) in enumerate(zip(streams(run.model, ids), flips, strict=True)):
        yield {
            "layer": layer,
            "position": kind,
            "flipped": share(layer, flip.moved(stream, other, flip.direction), at),
            "random": share(layer, flip.moved(stream, other, F.normalize(noise, dim=0)), at),
            "usual": usual,
        }


def over_seeds(rows: Sequence[dict[str, Any]], keys: list[str], measure: str) -> pd.DataFrame:
    """The means over the runs, and the 95 % interval of one measure."""
    of_run = pd.DataFrame(rows).groupby([*keys, "run"], sort=False).mean().groupby(keys, sort=False)
    means, seeds = of_run.mean(), of_run.size()
    t = [student_critical_value(0.05, max(count - 1, 1)) for count in seeds]
    margin = t * of_run[measure].std() / seeds**0.5  # nan of one run
    low, high = ((means[measure] + sign * margin).clip(0, 1) for sign in (-1, 1))
    columns = {measure: means[measure], "low": low, "high": high}
    return pd.DataFrame(columns | dict(means.items()) | {"seeds": seeds}).round(3)


def main() -> None:
    parser = Parser(prog="python -m studies.beliefs", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path()], help="finished runs")
    runs = [read_run(folder) for folder in parser.parse_args().folders]
    context = min(run.model.settings.context for run in runs)
    drawn = [story for story in draw() if len(story.words) < context]
    probes: list[dict[str, Any]] = []
    patches: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        for fact in FACTS:
            stories = stories_with(fact, drawn)[:STORIES]
            if not stories:
                raise InputError(f"no story that tells {fact} fits a context of {context}")
            found = gather(run, stories, fact)
            for kind, examples in found.items():
                row = {"run": number, "fact": fact, "position": kind}
                by_split = {"story": examples.stories}
                if fact in ("gender", "number"):  # not a name itself
                    by_split["name"] = examples.names
                for split, groups in by_split.items():
                    rows = probed(examples, groups)
                    probes += [row | {"split": split} | each for each in rows]
            if fact == "gender":
                told = [each for each in stories[::TEST] if "pronoun" in positions(each, fact)]
                for kind in ("at", "pronoun", "other"):
                    by_layer = flips(found[kind])
                    for story in told[:PATCHED]:
                        rows = patched(run, story, kind, by_layer)
                        patches += [{"run": number} | each for each in rows]
    tables = {
        "beliefs.csv": over_seeds(probes, ["fact", "position", "split", "layer"], "accuracy"),
        "beliefs_patch.csv": over_seeds(patches, ["position", "layer"], "flipped"),
    }
    for name, table in tables.items():
        write_bytes(FOLDER / name, table.to_csv().encode())
        print(table.to_string())


if __name__ == "__main__":
    sys.exit(run_command(main))

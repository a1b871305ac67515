"""Two recorded runs: the one that many tests share, and one with other stories, seeds and settings."""

import signal

import pytest

from tests.support.folders import made_once
from tests.support.plain_run import PlainRun
from tests.support.stages import STORIES, plant, run, small_params
from tinylm.train.trainer import Trainer

OTHER = {
    "data": {"seed": 4},
    "vocab": {"min_count": 2},
    "model": {"layers": 1, "heads": 4, "feed_forward": 11, "context": 13},
    "train": {
        "seed": 3, "accumulation": 2, "batch_size": 3, "unknown": 0.2, "lr": 0.06, "muon_lr": 0.05,
        "tokens": 2500, "warmup": 0.9, "clip_norm": 0.5, "validate_every": 4, "patience": 1,
    },
    "evaluate": {"stories": 7, "new_tokens": 9, "prompt_tokens": 3},
}  # fmt: skip


def finish_other(folder):
    """Training is ended by a signal, and continued."""
    params = small_params()
    for section, values in OTHER.items():
        params[section] |= values
    stories = []
    for number, story in enumerate(STORIES):
        name = f" Its name was n{number}." if number % 3 else ""  # a word that occurs once
        stories.append(story + name)
    plant(folder, params, stories)
    cuts = [9]  # updates: one after the best held-out loss, three before the end
    launch = Trainer.launch

    def launch_and_signal(self, batches):
        if self.updates in cuts:
            cuts.clear()
            signal.raise_signal(signal.SIGTERM)
        return launch(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Trainer, "launch", launch_and_signal)
        codes = [run(stage) for stage in ("download", "vocab", "train", "train", "evaluate")]
    assert codes == [0, 0, 128 + signal.SIGTERM, 0, 0]


@pytest.fixture(scope="session", params=["shared", "other"])
def plain(request, tmp_path_factory) -> PlainRun:
    """Each run, computed a second time."""
    if request.param == "shared":
        return PlainRun(request.getfixturevalue("finished_run"))
    return PlainRun(made_once(tmp_path_factory, "other_run", finish_other))

import sys
from types import SimpleNamespace

import pytest
import torch
from dvc_studio_client.config import get_studio_config

from tinylm.base.config import InputError
from tinylm.host.loggers import Logger, open_logger
from tinylm.train.loop import train


@pytest.fixture
def calls(monkeypatch):
    """Stand-ins for both packages that note what they are asked."""
    noted = []

    class Run:
        def log(self, figures, step):
            noted.append((step, dict(figures)))

        def finish(self):
            noted.append("closed")

    class Live:
        def __init__(self, folder, **options):
            noted.append({"folder": folder, **options})
            noted.append(
                {"studio": get_studio_config()}
            )  # what the real one asks for where to send
            self.step = 0

        def log_params(self, settings):
            noted.append({"settings": settings})

        def log_metric(self, name, value):
            noted.append((self.step, {name: value}))

        def make_summary(self):
            pass

        def end(self):
            noted.append("closed")

    def init(**options):
        noted.append(options)
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    monkeypatch.setitem(sys.modules, "dvclive", SimpleNamespace(Live=Live))
    return noted


def figures(noted):
    """{(update, name): value} of all that was sent."""
    sent = [entry for entry in noted if isinstance(entry, tuple)]
    return {(update, name): value for update, values in sent for name, value in values.items()}


@pytest.mark.parametrize("name", ["wandb", "dvclive"])
def test_curves_reach_the_tracker_and_results_stay_the_same(
    calls, new_model, new_batches, held_out, new_settings, name
):
    settings = new_settings(tokens=1500, validate_every=7)
    plain, logged = new_model(), new_model()
    expected = train(plain, new_batches(), held_out, settings)
    with open_logger(name, "runs", 0.0, {"train.lr": 0.01}) as logger:
        result = train(logged, new_batches(), held_out, settings, logger=logger)
    assert result.curves == expected.curves
    assert all(
        torch.equal(plain.state_dict()[key], tensor) for key, tensor in logged.state_dict().items()
    )
    sent, curves = figures(calls), result.curves
    assert {key: value for key, value in sent.items() if key[1] == "held_out_loss"} == {
        (update, "held_out_loss"): loss for update, _, loss in curves.held_out
    }
    for series, values in (
        ("train_loss", curves.train),
        ("learning_rate", curves.rate),
        ("tokens", curves.tokens),
    ):
        assert [sent[update, series] for update in curves.updates] == values
    assert calls[-1] == "closed"


def test_they_are_kept_offline_and_in_the_folder(calls, monkeypatch):
    """Beside variables that make dvclive send, and a service that would take it."""
    monkeypatch.delenv("DVC_STUDIO_OFFLINE", raising=False)
    studio = {
        "token": "isat_none",
        "repo_url": "git@localhost:me/it.git",
        "url": "http://127.0.0.1:9",
    }
    for name, value in studio.items():
        monkeypatch.setenv(f"DVC_STUDIO_{name.upper()}", value)
    assert get_studio_config() == studio
    with open_logger("wandb", "runs", 5.0, {"train.lr": 0.01}):
        pass
    with open_logger("dvclive", "runs", 5.0, {"train.lr": 0.01}):
        pass
    assert calls[0] == {
        "project": "tinylm",
        "dir": "runs",
        "mode": "offline",
        "config": {"train.lr": 0.01},
    }
    assert calls[2] == {
        "folder": "runs/dvclive",
        "report": None,
        "save_dvc_exp": False,
        "dvcyaml": None,
    }
    assert calls[3] == {"studio": {}}
    assert calls[4] == {"settings": {"train.lr": 0.01}}


@pytest.mark.parametrize("name", ["wandb", "dvclive"])
def test_it_is_closed_when_training_fails(calls, name):
    with pytest.raises(RuntimeError), open_logger(name, "runs", 5.0, {}):
        raise RuntimeError
    assert calls[-1] == "closed"


@pytest.mark.parametrize("name", ["wandb", "dvclive"])
def test_a_missing_package_is_one_line(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf"runtime\.logger = '{name}'") as caught:
        open_logger(name, "runs", 5.0, {}).__enter__()
    assert "\n" not in str(caught.value)


def test_none_imports_nothing(calls):
    with open_logger("none", "runs", 5.0, {}) as logger:
        assert logger is None
    assert calls == []


def test_metrics_of_updates_are_sent_at_an_interval():
    slow = Logger(print, 1e9)
    fast = Logger(print, 0.0)
    assert [slow.due() for _ in range(3)] == [True, False, False]
    assert [fast.due() for _ in range(3)] == [True, True, True]

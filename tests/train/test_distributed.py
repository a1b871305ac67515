"""Data parallel training: N ranks compute what one process does with the same mini-batches."""

import json
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.distributed import parity
from tests.support.shared import made_once
from tests.train.conftest import PAD, VOCAB, counting_story
from tinylm.base.config import InputError
from tinylm.host.command import CommandFailed, Interrupted
from tinylm.train.distributed import Group
from tinylm.train.ranks import _interface_to, in_ranks, verdict
from tinylm.vocab.batches import Batch
from tinylm.vocab.token_store import TokenStore, write_store

ROOT = Path(__file__).parents[2]
# name: (ranks, updates, settings); the last mini-batch of the 41 stories holds one row, and further ranks none of it
CASES = {
    "accumulated": (2, 100, {"accumulation": 2}),
    "three ranks": (3, 30, {"optimizer": "muon", "layout": "stream", "recompute": True}),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(3)
    write_store(folder, "train", [counting_story(rng) for _ in range(41)], VOCAB)
    return folder


@pytest.fixture
def cases(new_model, new_settings):
    return {
        name: (ranks, updates, new_model(), new_settings(tokens=10**7, **changes), PAD)
        for name, (ranks, updates, changes) in CASES.items()
    }


@pytest.fixture
def out(tmp_path_factory, corpus, cases):
    """What the ranks wrote; they ran once for all tests."""

    def run(folder):
        (folder / "cases.pickle").write_bytes(pickle.dumps(cases))
        words = [sys.executable, "-m", "tests.distributed.parity", str(corpus), str(folder)]
        subprocess.run(words, cwd=ROOT, check=True, timeout=100)

    return made_once(tmp_path_factory, "ranks", run)


@pytest.mark.parametrize("name", CASES)
def test_n_ranks_compute_what_one_process_does(out, corpus, cases, name):
    ranks, *case = cases[name]
    alone = parity.weights(TokenStore(corpus, "train"), *case, Group())
    theirs = [load_file(out / f"{name}-{rank}.safetensors") for rank in range(ranks)]
    for other in theirs[1:]:
        assert all(torch.equal(tensor, other[key]) for key, tensor in theirs[0].items())
    for key, tensor in alone.items():
        parts = (
            zip(tensor, theirs[0][key], strict=True) if tensor.dim() else [(tensor, theirs[0][key])]
        )
        if key.endswith(
            "qkv.bias"
        ):  # of keys: softmax takes it away, so that its gradient is rounding alone
            query, _, value = zip(tensor.chunk(3), theirs[0][key].chunk(3), strict=True)
            parts = [query, value]
        for ours, found in parts:
            torch.testing.assert_close(
                found, ours, rtol=0, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
            )


def test_what_ranks_tell_each_other(out):
    lead, other = (json.loads((out / f"conversation-{rank}.json").read_text()) for rank in range(2))
    assert lead.pop("random") != other.pop("random")
    assert lead == other
    assert lead == {
        "total": [1.0, 1.0],
        "largest": 15,
        "from_rank0": [{"b": [0.0, 1.0, 2.0], "a": 7}, {"updates": 5}],
        "nothing": None,
        "align": [True, False, {"model.w": [1.0, 1.0], "optimizer.m": [5.0]}],
        "summed_loss": [[8.5, 2], [4.0, 1]],
        "threads": 2,
    }


def test_a_rank_started_with_other_inputs_is_refused_by_name(out):
    expected = rf"rank 1: data differs from rank 0's on {socket.gethostname()}; every host needs the same params.yaml"
    assert (out / "refused").read_text().startswith(expected)


def test_the_shares_are_the_mini_batch(ragged):
    whole = [ragged, Group().share(ragged)]
    assert whole[0] is whole[1]
    shares = [Group(rank, 3).share(ragged) for rank in range(3)]
    assert [len(share) for share in shares] == [
        4,
        3,
        2,
    ]  # too few rows: no share of that mini-batch
    assert sum(batch.tokens for share in shares for batch in share) == sum(
        batch.tokens for batch in ragged
    )
    rows = sorted(row.tolist() for share in shares for batch in share for row in batch.inputs)
    assert rows == sorted(row.tolist() for batch in ragged for row in batch.inputs)
    batch: Batch = shares[1][0]
    assert batch.tokens == int((batch.targets >= 0).sum())
    assert batch.targets.is_contiguous()


def test_more_processes_than_rows_or_than_cards_are_refused(new_settings, monkeypatch):
    assert new_settings(processes=9).problems() == [
        "processes = 9; allowed: at most batch_size = 8, a row for each"
    ]
    assert new_settings(processes=8).problems() == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(
        InputError, match=r"train\.processes: 2 on this host; allowed: at most 1, its CUDA devices"
    ):
        Group(0, 2, 0, 2).device("auto")
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert Group(3, 4, 0, 1).device("auto").type == "cuda"
    assert chosen == [0]


@pytest.mark.parametrize(("processes", "size"), [(1, 2), (3, 2), (2, 1)])
def test_another_number_than_torchruns_is_refused(monkeypatch, processes, size):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(size))
    with pytest.raises(
        InputError, match=rf"processes = {processes}; allowed: {size}, the WORLD_SIZE of torchrun"
    ):
        in_ranks(processes, lambda _: None)


def test_torchrun_is_started_by_an_environment_variable(monkeypatch):
    started = []
    monkeypatch.setattr("os.execv", lambda _, words: started.append(words))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "stages.train"])
    monkeypatch.setenv("TINYLM_TORCHRUN", "--nnodes 2 --master-addr 'a b'")
    in_ranks(2, lambda _: None)
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    assert started == [[*torchrun, "--nnodes", "2", "--master-addr", "a b", "-m", "stages.train"]]


def test_the_interface_that_leads_to_an_address():
    assert _interface_to("127.0.0.1") == _interface_to("localhost")
    with pytest.raises(socket.gaierror):
        _interface_to("no host has this name")


LOST = {"kind": "lost", "text": "Connection closed", "kept": ""}
SAVED = {**LOST, "kept": "after update 3"}


@pytest.mark.parametrize(
    ("reports", "dead", "kind", "text"),
    [
        ({0: LOST}, {1: "was killed"}, CommandFailed, "rank 1 was killed"),
        ({0: SAVED}, {2: "was killed"}, CommandFailed, "rank 2 was killed; stopped after update 3"),
        (
            {0: SAVED, 1: LOST},
            {},
            CommandFailed,
            "rank 0: Connection closed; stopped after update 3",
        ),
        (
            {0: SAVED, 1: {"kind": "failed", "text": "oom"}},
            {},
            CommandFailed,
            "rank 1: oom; stopped after update 3",
        ),
        (
            {0: {"kind": "failed", "text": "nan"}, 1: {"kind": "failed", "text": "nan"}},
            {},
            CommandFailed,
            "nan",
        ),
        ({0: {"kind": "input", "text": "bad"}, 1: LOST}, {}, InputError, "bad"),
        ({0: {"kind": "signal", "number": 15, "text": "ended"}, 1: LOST}, {}, Interrupted, "ended"),
        ({0: {"kind": "closed", "text": ""}, 1: LOST}, {}, BrokenPipeError, ""),
    ],
)
def test_the_first_reason_is_what_is_told(reports, dead, kind, text):
    error = verdict(reports, dead)
    assert (type(error), str(error)) == (kind, text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TINYLM_PATIENCE_S", value) for value in ("x", "", "nan", "-1", "0")),
        *(
            ("TINYLM_TORCHRUN", value)
            for value in ("'", "nonsense", "--nnodes", "--no-such-option 2", "--nnodes 2 own.py")
        ),
    ],
)
def test_a_mistake_in_the_environment_is_named_before_any_rank_starts(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "stages.train"])
    monkeypatch.setattr("os.execv", lambda *_: pytest.fail("it was started"))
    with pytest.raises(InputError, match=f"{name} = .*; allowed: "):
        in_ranks(1, pytest.fail)


def test_the_arithmetic_of_a_run_is_that_of_all_its_ranks(monkeypatch):
    """A snapshot of rank 0 shows it if another rank's host was exchanged."""
    kind = {"arithmetic.cpu": "a", "arithmetic.threads": 1}
    assert Group().together(kind) == kind
    others = torch.tensor([[7.0]], dtype=torch.float64)

    def gathered(_, values):
        return torch.cat([torch.tensor([values], dtype=torch.float64), others])

    monkeypatch.setattr(Group, "_gathered", gathered)
    found = [Group(0, 2).together(kind)["arithmetic.ranks"]]
    others += 1.0
    found.append(Group(0, 2).together(kind)["arithmetic.ranks"])
    found.append(Group(0, 2).together(kind | {"arithmetic.cpu": "b"})["arithmetic.ranks"])
    assert len(set(found)) == 3
    assert Group(0, 2).together(kind).items() > kind.items()

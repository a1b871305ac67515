"""Benches under a real limit of memory (RLIMIT_AS): the setting that does not fit is oom, the others are measured."""

import csv
import json
import resource

import pytest
import torch

from stages import accum_run, accum_sweep, beam_bench, ckpt_bench, kv_bench
from tinylm.base.config import read_section
from tinylm.bench import measure
from tinylm.model.checkpoint import new_model, save_model
from tinylm.model.settings import ModelSettings
from tinylm.vocab.matrix_file import load_matrix

WIDE = 150_000  # of the feed-forward part: 14 MiB of weights a layer at width 12


def within(function, task, more_mib):
    """function(task) in a process that may take so many MiB more than it has."""
    with open("/proc/self/statm", encoding="ascii") as handle:
        used = int(handle.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (more_mib << 20), -1))
    return function(task)


@pytest.fixture
def limit(monkeypatch):
    """limit(mib): what each setting's process may take above what it starts with."""
    real = measure.in_own_process

    def apply(more_mib):
        monkeypatch.setattr(
            measure, "in_own_process", lambda function, task: real(within, function, task, more_mib)
        )

    return apply


def not_measured(folder, bench):
    found = json.loads((folder / f"metrics/{bench}_time.json").read_text())["not_measured"]
    return [(entry["setting"], entry["reason"]) for entry in found]


def test_fault_19_ckpt_bench_goes_on_with_the_next_depth(folder, params, change, limit):
    change(params, "model", feed_forward=WIDE)
    change(params, "ckpt_bench", depths=[1, 40])
    limit(350)
    ckpt_bench.main()
    oom = [
        (f"40 layers, recompute {way}", "oom") for way in ("none", "blocks", "blocks+loss", "sqrt")
    ]
    assert not_measured(folder, "ckpt_bench") == oom
    assert json.loads((folder / "data/figures/ckpt_bench.json").read_text())["depths"] == [1]
    rows = list(csv.DictReader((folder / "plots/ckpt_memory_time.csv").open()))
    assert [row["layers"] for row in rows] == ["1"] * 4


def test_fault_19_kv_bench_goes_on_with_the_cache(folder, params, change, limit):
    """16 places of 10 rows at once without the cache, one with it."""
    change(params, "model", feed_forward=WIDE, layers=1)
    change(params, "kv_bench", lengths=[14], batch=10)
    settings = read_section(params, "model", ModelSettings)
    save_model(
        "models",
        new_model(settings, torch.from_numpy(load_matrix("data/vocab/embedding.safetensors"))),
    )
    limit(210)
    kv_bench.main()
    assert not_measured(folder, "kv_bench") == [("14 new tokens, 10 rows, no cache", "oom")]


def test_fault_19_beam_bench_goes_on_with_the_next_width(folder, params, change, limit):
    change(params, "model", feed_forward=WIDE, layers=1)
    change(params, "beam_bench", widths=[30, 1])
    settings = read_section(params, "model", ModelSettings)
    save_model(
        "models",
        new_model(settings, torch.from_numpy(load_matrix("data/vocab/embedding.safetensors"))),
    )
    limit(125)
    beam_bench.main()
    assert not_measured(folder, "beam_bench") == [("beam 30", "oom")]
    methods = json.loads((folder / "data/figures/beam_bench.json").read_text())["methods"]
    assert list(methods) == ["sampling", "greedy", "beam 1"]


def test_fault_19_the_sweep_of_accumulation_goes_on(folder, params, change, monkeypatch, limit):
    monkeypatch.setattr("sys.argv", ["accum_run", "1"])
    accum_run.main()
    narrow = params["model"]["feed_forward"]
    change(params, "model", feed_forward=WIDE)
    limit(100)
    monkeypatch.setattr("sys.argv", ["accum_run", "2"])
    accum_run.main()
    change(
        params, "model", feed_forward=narrow
    )  # the times of the first are kept by its parameters
    accum_sweep.main()
    assert not_measured(folder, "accum_sweep") == [("accumulation 2", "oom")]
    assert list(json.loads((folder / "data/figures/accum_sweep.json").read_text())["settings"]) == [
        "1"
    ]

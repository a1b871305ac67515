"""What a run says of its kind of arithmetic, against what torch and oneDNN do in processes of their own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.base.machine import instructions
from tinylm.host.runtime import conditions
from tinylm.kernels.library import FLAGS
from tinylm.kernels.train import binding
from tinylm.train import arithmetic as room
from tinylm.train.arithmetic import arithmetic, trial_sha256

CPU = torch.device("cpu")
ASKED = """
import json, torch
from tinylm.base.machine import instructions
from tinylm.train.arithmetic import trial_sha256
torch.set_num_threads(1)
torch.nn.functional.conv2d(torch.rand(1, 8, 8, 8), torch.rand(8, 8, 3, 3))  # oneDNN, which then says what it uses
print(json.dumps({**instructions(), "trial": trial_sha256(torch.device("cpu"))}))
"""
LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR")
ONEDNN_SAYS = {
    "sse41": "SSE4.1",
    "avx": "AVX",
    "avx2": "AVX2",
    "avx512_core": "AVX-512 with AVX512BW",
}


def asked(**environment):
    """(what a new process says of itself, oneDNN's own line)"""
    clean = {name: value for name, value in os.environ.items() if name not in LIMITS}
    words, root = [sys.executable, "-c", ASKED], Path(__file__).parents[2]
    known = clean | {"ONEDNN_VERBOSE": "1"} | environment
    said = subprocess.run(
        words, cwd=root, env=known, capture_output=True, text=True, check=True
    ).stdout
    (level,) = [line.partition("isa:")[2] for line in said.splitlines() if "cpu,isa:" in line]
    return json.loads(said.splitlines()[-1]), level


def test_equal_processes_calculate_alike_whatever_does_not_matter():
    first, _ = asked()
    assert asked(OMP_NUM_THREADS="2", LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7")[0] == first


@pytest.mark.skipif("avx2" not in instructions()["instructions"], reason="not such a processor")
@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"ATEN_CPU_CAPABILITY": "default"}, {"torch_level": "default"}),
        ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, {"onednn_level": "sse41"}),
        ({"DNNL_MAX_CPU_ISA": "avx"}, {"onednn_level": "avx"}),
        ({"MKL_CBWR": "COMPATIBLE"}, {}),  # named nowhere: the trial calculation shows it
    ],
)
def test_another_kind_of_arithmetic_is_seen(environment, told):
    (before, _), (after, level) = asked(), asked(**environment)
    differing = {key: after[key] for key in after if after[key] != before[key]}
    assert differing.pop("trial") != before["trial"]
    assert differing == told
    if after["onednn_level"] in ONEDNN_SAYS:
        assert level.endswith(ONEDNN_SAYS[after["onednn_level"]])


def test_the_trial_calculation_draws_no_random_number():
    before = torch.get_rng_state()
    assert trial_sha256(CPU) == trial_sha256(CPU)
    assert torch.equal(torch.get_rng_state(), before)


@needs_compiler
def test_kernels_are_known_by_what_was_compiled(new_settings, monkeypatch, tmp_path):
    """The same wherever the cache is; other flags are other kernels; without a compiler, torch."""

    def kernels():
        found = arithmetic(conditions(CPU, 1), new_settings(precision="bf16"), CPU)
        return found["arithmetic.kernels"]

    first = kernels()
    assert first.startswith("native ")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels() == first
    monkeypatch.setattr("tinylm.kernels.library.FLAGS", (*FLAGS, "-ffast-math"))
    assert kernels() != first
    monkeypatch.setattr(room, "why_not_native", lambda *_: "no C++ compiler")
    assert kernels() == "torch"
    assert binding.KERNELS.path().parent == tmp_path / "tinylm"


def test_auto_is_told_as_what_it_means_here(new_settings):
    found = arithmetic(conditions(CPU, 3), new_settings(precision="auto", compile="auto"), CPU)
    assert found["arithmetic.precision"] in ("fp32", "bf16")
    assert (found["arithmetic.compile"], found["arithmetic.threads"]) == ("false", 3)


@needs_compiler
def test_what_torch_compiles_with_is_told(new_settings):
    compiled = arithmetic(conditions(CPU, 1), new_settings(compile="true", precision="fp32"), CPU)
    assert re.search(r"\d+\.\d+", compiled["arithmetic.compiler"])

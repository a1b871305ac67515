#!/usr/bin/env bash
# torch 2.13.0: the first update with gradient checkpointing imports sympy and hundreds of other modules in the middle of it.
#
# One expects that a process which has imported torch trains without importing more, on a CPU and without torch.compile: a
# first update may be slower by allocations, by some milliseconds. The guess before the run was the same.
#
# What happens: `loss.backward()` of a number imports nothing. `backward` with a gradient of its own, `torch.autograd.grad`
# with one, and both forms of `torch.utils.checkpoint` import sympy, mpmath and parts of torch's compiler in their first
# call. On two cores of an AMD EPYC (Zen 4) that took 0.3 s for a gradient and 1.4 s for checkpointing, once in each process.
# So a short benchmark of recomputation measures Python's imports: with 20 updates of 10 ms, checkpointing seems to take
# several times as long as it does. One checkpointed backward pass before the clock starts prevents it; one with a given
# gradient prevents only the import of sympy.
#
# Seen on 2026-12-01 with torch 2.13.0:
#   loss.backward(): nothing
#   y.backward(gradient): sympy, over 100 modules
#   torch.autograd.grad(y, x, gradient): sympy, over 100 modules
#   checkpoint(use_reentrant=False): sympy, over 100 modules
#   checkpoint(use_reentrant=True): sympy, over 100 modules
#   checkpoint after y.backward(gradient): no sympy, over 100 modules
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile torch==2.13.0 numpy
cat > seen.py <<'PY'
import subprocess
import sys

CALLS = {
    "loss.backward()": "(x * 2).sum().backward()",
    "y.backward(gradient)": "(x * 2).backward(torch.ones(3))",
    "torch.autograd.grad(y, x, gradient)": "torch.autograd.grad(x * 2, x, torch.ones(3))",
    "checkpoint(use_reentrant=False)": "checkpoint(torch.exp, x, use_reentrant=False).sum().backward()",
    "checkpoint(use_reentrant=True)": "checkpoint(torch.exp, x, use_reentrant=True).sum().backward()",
    "checkpoint after y.backward(gradient)": "checkpoint(torch.exp, x, use_reentrant=False).sum().backward()",
}
PROGRAM = """
import sys

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
if {is_after}:
    (x * 2).backward(torch.ones(3))
before = set(sys.modules)
{call}
new = set(sys.modules) - before
print("nothing" if not new else f"{{'sympy' if 'sympy' in new else 'no sympy'}}, {{'over' if len(new) > 100 else 'under'}} 100 modules")
"""
for name, call in CALLS.items():
    program = PROGRAM.format(call=call, is_after="after" in name)
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    print(f"{name}: {run.stdout.strip()}")
PY
v/bin/python seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-12-01" >&2; exit 1; }
loss.backward(): nothing
y.backward(gradient): sympy, over 100 modules
torch.autograd.grad(y, x, gradient): sympy, over 100 modules
checkpoint(use_reentrant=False): sympy, over 100 modules
checkpoint(use_reentrant=True): sympy, over 100 modules
checkpoint after y.backward(gradient): no sympy, over 100 modules
EXPECTED

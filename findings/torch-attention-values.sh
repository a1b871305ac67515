#!/usr/bin/env bash
# torch 2.13.0: on a CPU, the gradient of the values in scaled_dot_product_attention loses digits as the scores grow, though
# large scores do not change how the values are weighted and summed.
#
# One expects: both backends that the function has on a CPU, FLASH_ATTENTION (the default) and MATH, are about as far from
# float64. That holds for the output, and for the gradient of queries and keys within a factor of about five: there, both
# inherit the rounding of the scores. The gradient of the values is the transposed weights times the incoming gradient.
#
# What happens: with queries times 100, MATH has that gradient to about six digits, FLASH_ATTENTION to about four; times 1,
# they agree. Its backward pass does not keep the weights. It seems to compute them again as exp(score - logsumexp), and the
# rounding of large scores, which a maximum subtracted first would leave harmless, becomes an error of each weight.
#
# Seen on 2026-11-30 with torch 2.13.0 on an AMD EPYC (Zen 4), with the error relative to float64, in norm:
#   queries times 1: output alike, gradient of the values alike
#   queries times 100: output alike, gradient of the values at least 10 times as far off
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile torch==2.13.0 numpy
cat > seen.py <<'PY'
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.set_num_threads(1)


def computed(backend, scale, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    q, k, v, incoming = (torch.randn(1, 1, 32, 11, generator=generator) for _ in range(4))
    q, k, v = (x.to(dtype).requires_grad_() for x in (scale * q, k, v))
    with sdpa_kernel(backend):
        output = scaled_dot_product_attention(q, k, v, is_causal=True)
        (output * incoming.to(dtype)).sum().backward()
    return output.detach().double(), v.grad.double()


def errors(backend, scale):
    """The errors of output and gradient, each the median of 15 draws."""
    found = []
    for seed in range(15):
        exact = computed(SDPBackend.MATH, scale, seed, torch.float64)
        rounded = computed(backend, scale, seed, torch.float32)
        found.append([float((a - b).norm() / b.norm()) for a, b in zip(rounded, exact)])
    return torch.tensor(found).median(0).values


def said(ratio):
    return "alike" if ratio < 4 else "at least 10 times as far off" if ratio > 10 else f"{ratio:.1f} times as far off"


for scale in (1, 100):
    output, values = (errors(SDPBackend.FLASH_ATTENTION, scale) / errors(SDPBackend.MATH, scale)).tolist()
    print(f"queries times {scale}: output {said(output)}, gradient of the values {said(values)}")
PY
v/bin/python -W ignore seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-30" >&2; exit 1; }
queries times 1: output alike, gradient of the values alike
queries times 100: output alike, gradient of the values at least 10 times as far off
EXPECTED

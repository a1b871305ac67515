#!/usr/bin/env bash
# safetensors 0.8.0: safetensors.numpy writes a transposed or strided array with its shape right and its
# values in the wrong places.
#
# One expects: save(x) then load() gives x, as 0.7.0 does, or an error, as safetensors.torch raises for a
# tensor that is not contiguous. Turning a weight round with .T is the common step of a conversion
# between layers that keep (in, out) and layers that keep (out, in).
#
# What happens: 0.8.0 takes the bytes as they lie in memory and notes the shape that the view shows. The
# file is valid and each reader opens it; only the numbers are elsewhere. A strided view even gets values
# that it never held. No error and no warning; 0.7.0 wrote the same arrays right. (Reported to the
# project; 0.8.0 is the newest release on the day below.)
#
# Seen on 2026-11-29 with numpy 2.4.6:
#   safetensors 0.7.0: x.T      [[0, 3], [1, 4], [2, 5]] -> [[0, 3], [1, 4], [2, 5]]
#   safetensors 0.7.0: x[:, ::2] [[0, 2], [3, 5]] -> [[0, 2], [3, 5]]
#   safetensors 0.8.0: x.T      [[0, 3], [1, 4], [2, 5]] -> [[0, 1], [2, 3], [4, 5]]
#   safetensors 0.8.0: x[:, ::2] [[0, 2], [3, 5]] -> [[0, 1], [2, 3]]
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
cat > seen.py <<'PY'
import safetensors
import numpy as np
from safetensors.numpy import load, save

x = np.arange(6, dtype=np.float32).reshape(2, 3)
for name, view in (("x.T     ", x.T), ("x[:, ::2]", x[:, ::2])):
    back = load(save({"w": view}))["w"]
    assert back.shape == view.shape
    print(f"safetensors {safetensors.__version__}: {name} {view.astype(int).tolist()} -> {back.astype(int).tolist()}")
PY
for version in 0.7.0 0.8.0; do
    v/bin/python -m pip install -q --disable-pip-version-check --no-compile safetensors==$version numpy==2.4.6
    v/bin/python -W error seen.py
done | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
safetensors 0.7.0: x.T      [[0, 3], [1, 4], [2, 5]] -> [[0, 3], [1, 4], [2, 5]]
safetensors 0.7.0: x[:, ::2] [[0, 2], [3, 5]] -> [[0, 2], [3, 5]]
safetensors 0.8.0: x.T      [[0, 3], [1, 4], [2, 5]] -> [[0, 1], [2, 3], [4, 5]]
safetensors 0.8.0: x[:, ::2] [[0, 2], [3, 5]] -> [[0, 1], [2, 3]]
EXPECTED

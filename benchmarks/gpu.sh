#!/usr/bin/env bash
# Tests and speed of training on a CUDA card, in about 5 minutes: bash benchmarks/gpu.sh FOLDER
#
# FOLDER gets gpu.json and the logs.
# In the environment, all optional:
#   NANOGPT   a clone of nanoGPT, to train in turn with
#   WHEELS    a folder of wheels, installed first without network access
#   TINY=1    on the CPU, small, only to show that everything runs
set -u -o pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
results=$(cd "$1" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
export PYTHONUNBUFFERED=1 CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONPYCACHEPREFIX="$work/pycache"
tiny=${TINY:+--tiny}
device=${TINY:+cpu}

if [ -n "${WHEELS:-}" ]; then
  "$python" -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$WHEELS"/*.whl
  export PYTHONPATH="$work/site"
fi
begun=$(date +%s)
failed=0
say() { echo "== $(($(date +%s) - begun)) s: $*"; }

say "tests of the card"
TINYLM_TEST_DEVICE=${device:-cuda} timeout 150 "$python" -m pytest tests/cuda -p no:cacheprovider \
  > "$results/tests.log" 2>&1 || failed=1
tail -n 30 "$results/tests.log"

say "measurements"
timeout 480 "$python" -m benchmarks.gpu "$results" $tiny ${NANOGPT:+--nanogpt "$NANOGPT"} \
  2>&1 \
  | tee "$results/gpu.log" || failed=1
say "done"
rm -rf "$work"
exit $failed

#!/usr/bin/env bash
# Everything that tinylm does on a CUDA card, in about 8 minutes: bash benchmarks/gpu.sh FOLDER
#
# FOLDER gets gpu.json, the metrics of the stages and the logs. A part that fails does not stop the next one.
# The stages run if stages download and vocab have run here before.
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
# Seconds, so that a part that hangs on a card does not use up the time of the others.
tests_limit=150
measurements_limit=240
if [ -n "${TINY:-}" ]; then
  tests_limit=3600
  measurements_limit=3600
fi

if [ -n "${WHEELS:-}" ]; then
  "$python" -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$WHEELS"/*.whl
  export PYTHONPATH="$work/site"
fi
begun=$(date +%s)
failed=0
say() { echo "== $(($(date +%s) - begun)) s: $*"; }

say "tests of the card"
TINYLM_TEST_DEVICE=${device:-cuda} timeout $tests_limit "$python" -m pytest tests/cuda -p no:cacheprovider \
  > "$results/tests.log" 2>&1 || failed=1
tail -n 30 "$results/tests.log"

say "measurements"
timeout $measurements_limit "$python" -m benchmarks.gpu "$results" $tiny ${NANOGPT:+--nanogpt "$NANOGPT"} \
  2>&1 \
  | tee "$results/gpu.log" || failed=1
if [ -d data/tokens ] && [ -z "${TINY:-}" ]; then  # in a clone, TINY=1 must not replace the run
  for stage in train evaluate beam_bench ckpt_bench kv_bench accum_sweep report; do
    say "stage $stage"
    timeout 100 "$python" -m "stages.$stage" > "$results/$stage.log" 2>&1 || { failed=1; tail -n 5 "$results/$stage.log"; }
  done
  tar -czf "$results/metrics.tar.gz" metrics plots/*.csv data/times
fi
say "done"
rm -rf "$work"
exit $failed

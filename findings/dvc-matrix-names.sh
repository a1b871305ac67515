#!/usr/bin/env bash
# DVC 3.67.1: a matrix can leave out one of its combinations, and says that everything is up to date.
#
# One expects: a matrix of two models and two sizes makes four stages, or an error if two of them cannot
# be told apart.
#
# What happens: a stage is named by its values joined with "-", and values may hold "-" themselves.
# gpt + 2-small and gpt-2 + small are both run@gpt-2-small; the later one replaces the earlier one.
# `dvc repro` runs three commands and ends with 0, `dvc status` reports nothing to do, and the
# fourth result does not exist. Their outputs do not clash, so no check of overlapping outputs helps.
#
# Seen on 2026-11-29 with dvc 3.67.1:
#   dvc repro: exit 0, commands run: 3 of 4
#   stages: run@gpt-2-2-small run@gpt-2-small run@gpt-small
#   out/gpt_2-small.txt: missing
#   out/gpt_small.txt: made
#   out/gpt-2_2-small.txt: made
#   out/gpt-2_small.txt: made
#   dvc status: Data and pipelines are up to date.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile dvc==3.67.1
# DVC's own settings and caches stay in the temporary folder as well.
mkdir home
export HOME="$T/home" XDG_CACHE_HOME="$T/cache" XDG_CONFIG_HOME="$T/config" DVC_SITE_CACHE_DIR="$T/site" DVC_NO_ANALYTICS=1
mkdir project; cd project
cat > dvc.yaml <<'YAML'
stages:
  run:
    matrix:
      model: [gpt, gpt-2]
      size: [small, 2-small]
    cmd: mkdir -p out && echo done > out/${item.model}_${item.size}.txt
    outs:
      - out/${item.model}_${item.size}.txt
YAML
{
    ../v/bin/dvc init -q --no-scm
    rc=0; ../v/bin/dvc repro > ../log 2>&1 || rc=$?
    echo "dvc repro: exit $rc, commands run: $(grep -c '^> ' ../log) of 4"
    echo "stages:" $(grep -o '^  run@[^:]*' dvc.lock | sort)
    for model in gpt gpt-2; do for size in 2-small small; do
        f=out/${model}_$size.txt
        if [ -e "$f" ]; then echo "$f: made"; else echo "$f: missing"; fi
    done; done
    echo "dvc status: $(../v/bin/dvc status 2>&1)"
} | tee ../seen
diff - ../seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
dvc repro: exit 0, commands run: 3 of 4
stages: run@gpt-2-2-small run@gpt-2-small run@gpt-small
out/gpt_2-small.txt: missing
out/gpt_small.txt: made
out/gpt-2_2-small.txt: made
out/gpt-2_small.txt: made
dvc status: Data and pipelines are up to date.
EXPECTED

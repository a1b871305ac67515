#!/usr/bin/env bash
# optimum-onnx 0.1.0 with transformers 4.57.6: if generation_config.json has one setting of beam search, the exported graph
# loses all settings of that file. Without suppress_tokens, for example, it generates tokens that it never should.
#
# One expects: the exporter copies generation_config.json, as it does for other models, or leaves out the one setting that
# it objects to, or stops with an error. transformers 4.57.6 loads the file and generates with all of its settings.
#
# What happens: early_stopping next to num_beams 1 counts as invalid. The export succeeds and logs that the config "will
# not be saved", among other warnings. The folder still has a generation_config.json: a new one, with the special tokens
# of config.json and nothing else. Below, one GPT-2 is exported with and without that setting, which greedy decoding does
# not use. Its texts must not contain token 5, the likeliest one here.
#
# Seen on 2026-11-29 with torch 2.13.0 and onnxruntime 1.32.0:
#   transformers, without early_stopping: token 5 occurs 0 times
#   transformers, with early_stopping: token 5 occurs 0 times
#   the graph, without early_stopping: token 5 occurs 0 times, suppress_tokens [5]
#   the graph, with early_stopping: token 5 occurs 10 times, suppress_tokens None
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export HF_HOME="$T" HF_HUB_OFFLINE=1
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile \
    'optimum-onnx[onnxruntime]==0.1.0' transformers==4.57.6 torch==2.13.0 onnxruntime==1.32.0
cat > seen.py <<'PY'
import json
from pathlib import Path

import torch
import transformers
from optimum.onnxruntime import ORTModelForCausalLM

transformers.logging.set_verbosity_error()
PROMPT = torch.tensor([[0, 3]])


def count(model):
    ids = model.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), max_new_tokens=10, do_sample=False)
    return ids[0, 2:].tolist().count(5)


def write(folder, settings):
    """A GPT-2 that likes token 5 best, whatever the text."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=12, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1,
        tie_word_embeddings=False,
    ))
    with torch.no_grad():
        model.transformer.ln_f.bias.copy_(10 * model.lm_head.weight[5] / model.lm_head.weight[5].norm())
    model.save_pretrained(folder)
    path = Path(folder, "generation_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"suppress_tokens": [5]} | settings))


folders = {"without early_stopping": {}, "with early_stopping": {"early_stopping": True}}
for folder, settings in folders.items():
    write(folder, settings)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    print(f"transformers, {folder}: token 5 occurs {count(loaded)} times")
for folder in folders:
    ORTModelForCausalLM.from_pretrained(folder, export=True).save_pretrained("graph")
    kept = json.loads(Path("graph/generation_config.json").read_text()).get("suppress_tokens")
    graph = ORTModelForCausalLM.from_pretrained("graph")
    print(f"the graph, {folder}: token 5 occurs {count(graph)} times, suppress_tokens {kept}")
PY
v/bin/python seen.py 2>/dev/null | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
transformers, without early_stopping: token 5 occurs 0 times
transformers, with early_stopping: token 5 occurs 0 times
the graph, without early_stopping: token 5 occurs 0 times, suppress_tokens [5]
the graph, with early_stopping: token 5 occurs 10 times, suppress_tokens None
EXPECTED

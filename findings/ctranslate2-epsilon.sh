#!/usr/bin/env bash
# ctranslate2 4.8.5: the converter of transformers models omits the epsilon of layer norms, so every converted GPT-2
# computes with 1e-5.
#
# One expects: a converted model has the logits of the original, up to rounding, or the converter refuses a setting that
# the format cannot hold. It copies other settings of config.json, such as the activation, and refuses those it lacks.
#
# What happens: layer_norm_epsilon of a GPT-2 (layer_norm_eps of a GPT-NeoX) is not read. The key exists in the format:
# the converted config.json has "layer_norm_epsilon": null, which stands for 1e-5. There is no error or warning. Below,
# with an epsilon of 1e-3, the logits of a GPT-2 that transformers has just initialised are off by more than their own
# spread. They are right once that epsilon is written into the converted config.json by hand.
#
# Seen on 2026-11-29 with transformers 5.23.0 and torch 2.13.0:
#   epsilon 1e-05, as converted: equal up to rounding
#   epsilon 0.001, as converted: off by more than the spread of the logits
#   epsilon 0.001, in config.json of the converted model null
#   epsilon 0.001, written there: equal up to rounding
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export HF_HOME="$T" HF_HUB_OFFLINE=1
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile \
    ctranslate2==4.8.5 transformers==5.23.0 torch==2.13.0
cat > seen.py <<'PY'
import json
from pathlib import Path

import ctranslate2
import numpy as np
import torch
import transformers
from ctranslate2.converters import TransformersConverter
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
WORDS = ["<s>", "</s>", "<unk>", *"abcdefgh"]
IDS = [0, 3, 4, 5, 6, 7]
CONFIG = Path("converted/config.json")


def convert(epsilon):
    """A GPT-2 as transformers initialises it, and the same converted."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=len(WORDS), n_positions=16, n_embd=32, n_layer=2, n_head=2, layer_norm_epsilon=epsilon,
        bos_token_id=0, eos_token_id=1,
    )).eval()
    model.save_pretrained("model")
    words = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained("model")
    TransformersConverter("model").convert("converted", force=True)
    return model


def show(name, model):
    reader = ctranslate2.Generator("converted", compute_type="float32")
    found = np.array(reader.forward_batch([[WORDS[index] for index in IDS]]))[0]
    with torch.no_grad():
        wanted = model(torch.tensor([IDS])).logits[0].numpy()
    off = np.abs(found - wanted).max() / wanted.std()
    print(name, "off by more than the spread of the logits" if off > 1 else
          "equal up to rounding" if off < 1e-3 else f"off by {off:.3f} of the spread")


show("epsilon 1e-05, as converted:", convert(1e-5))
model = convert(1e-3)
show("epsilon 0.001, as converted:", model)
config = json.loads(CONFIG.read_text())
print("epsilon 0.001, in config.json of the converted model", json.dumps(config["layer_norm_epsilon"]))
CONFIG.write_text(json.dumps(config | {"layer_norm_epsilon": 1e-3}))
show("epsilon 0.001, written there:", model)
PY
v/bin/python -W ignore seen.py | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
epsilon 1e-05, as converted: equal up to rounding
epsilon 0.001, as converted: off by more than the spread of the logits
epsilon 0.001, in config.json of the converted model null
epsilon 0.001, written there: equal up to rounding
EXPECTED

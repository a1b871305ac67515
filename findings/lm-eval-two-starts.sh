#!/usr/bin/env bash
# lm-eval 0.4.13: its two log-probabilities of one text differ if the tokenizer itself puts <s> before the text.
#
# The harness calls `loglikelihood` for tasks with a choice of answers, and `loglikelihood_rolling` for the perplexity of
# whole texts. Tokenizers of LLaMA, Gemma and others put a start token before every text.
#
# One expects: both give the same log-probability of a text after an empty prompt.
#
# What happens: loglikelihood_rolling puts a start token before the ids of the text, which already begin with one. So it
# reads <s> <s> a b c d e, and adds the log-probability of the second <s>, which no text has, to that of the words. All
# perplexities become worse, by a different factor for each model, without an error or a warning. add_bos_token=False fixes
# that, but then loglikelihood reads its prompts without <s>: no setting is right for both kinds of task.
#
# Seen on 2026-11-29 with transformers 5.23.0 and torch 2.13.0:
#   the model itself:                                          -18.31
#   loglikelihood of the text after '':                        -18.31
#   loglikelihood_rolling:                                     -19.10
#   loglikelihood_rolling, add_bos_token=False:                -18.31
#   the model itself, b c d e after a:                         -14.70
#   loglikelihood of b c d e after a:                          -14.70
#   loglikelihood of b c d e after a, add_bos_token=False:     -10.78
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export HF_HOME="$T" HF_HUB_OFFLINE=1
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile \
    lm-eval==0.4.13 transformers==5.23.0 torch==2.13.0 accelerate==1.15.0
cat > seen.py <<'PY'
import logging

import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models, pre_tokenizers, processors

logging.disable(logging.WARNING)
transformers.logging.disable_progress_bar()
WORDS = ["<s>", "</s>", "<unk>", *"abcdefgh"]
TEXT = "a b c d e"

tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, "<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 0)])
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)
tokenizer.save_pretrained("model")
torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=len(WORDS), n_positions=16, n_embd=32, n_layer=2, n_head=2, initializer_range=0.3, bos_token_id=0,
    eos_token_id=1,
)).eval()
model.save_pretrained("model")


def itself(start):
    """Log-probability of the text's tokens from this position, after all before it."""
    ids = torch.tensor(tokenizer(TEXT).input_ids)
    with torch.no_grad():
        log_probs = model(ids[None]).logits[0].log_softmax(-1)
    return log_probs[start - 1 : -1].gather(1, ids[start:, None]).sum().item()


def asked(kind, *arguments, **settings):
    reader = HFLM("model", device="cpu", batch_size=1, **settings)
    (found,) = getattr(reader, kind)([Instance(kind, {}, arguments, 0)], disable_tqdm=True)
    return found if kind == "loglikelihood_rolling" else found[0]


off = {"add_bos_token": False}
for name, value in (
    ("the model itself", itself(1)),
    ("loglikelihood of the text after ''", asked("loglikelihood", "", TEXT)),
    ("loglikelihood_rolling", asked("loglikelihood_rolling", TEXT)),
    ("loglikelihood_rolling, add_bos_token=False", asked("loglikelihood_rolling", TEXT, **off)),
    ("the model itself, b c d e after a", itself(2)),
    ("loglikelihood of b c d e after a", asked("loglikelihood", "a", " b c d e")),
    ("loglikelihood of b c d e after a, add_bos_token=False", asked("loglikelihood", "a", " b c d e", **off)),
):
    print(f"{name + ':':<58} {value:.2f}")
PY
v/bin/python -W ignore seen.py 2> errors | tee seen
diff - seen <<'EXPECTED' || { tail -3 errors; echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
the model itself:                                          -18.31
loglikelihood of the text after '':                        -18.31
loglikelihood_rolling:                                     -19.10
loglikelihood_rolling, add_bos_token=False:                -18.31
the model itself, b c d e after a:                         -14.70
loglikelihood of b c d e after a:                          -14.70
loglikelihood of b c d e after a, add_bos_token=False:     -10.78
EXPECTED

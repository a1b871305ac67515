#!/usr/bin/env bash
# transformers 5.23.0: Trainer's loss of a GPT-2 is (T - 1) / T of the model's own; for a GPT-NeoX it is right.
#
# Trainer counts the labels of a batch, and the model divides the summed loss by that number. The first label of a row of T
# tokens is never predicted, since the model shifts the labels.
#
# One expects: for every causal model, trainer.evaluate() gives the same loss as model(rows, labels=rows).
#
# What happens: Trainer leaves the first label of each row out of its count only where the attribute loss_type of the model
# names the loss of causal models. A model derives it from the name of its class. GPT2LMHeadModel, whose name is older
# than that rule, gets none. So its loss and gradient are (T - 1) / T of their correct values: half for rows of two tokens,
# 99 % for 100. A GPT-2 seems to have a lower perplexity than a GPT-NeoX with the same predictions. loss_type in the config
# does not change that; the attribute model.loss_type does.
#
# Seen on 2026-11-29 with torch 2.13.0; rows of 4 tokens, so the ratio is 3 / 4 (each model has other random weights):
#   GPT2LMHeadModel: model 4.5921, eval_loss 3.4441, ratio 0.750
#   GPT2LMHeadModel, config.loss_type: model 4.5790, eval_loss 3.4343, ratio 0.750
#   GPT2LMHeadModel, model.loss_type: model 4.5811, eval_loss 4.5811, ratio 1.000
#   GPTNeoXForCausalLM: model 4.6065, eval_loss 4.6065, ratio 1.000
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export HF_HOME="$T" HF_HUB_OFFLINE=1 TQDM_DISABLE=1
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile \
    transformers==5.23.0 torch==2.13.0 accelerate==1.15.0
cat > seen.py <<'PY'
import torch
import transformers
from transformers import (
    GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, Trainer, TrainingArguments,
)

transformers.logging.set_verbosity_error()
SIZES = {"vocab_size": 99, "bos_token_id": 0, "eos_token_id": 0}
GPT2 = SIZES | {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 1}
NEOX = SIZES | {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
torch.manual_seed(1)
rows = torch.randint(99, (6, 4))


def ratio(name, model):
    model.eval()
    own = model(rows, labels=rows).loss.item()
    arguments = TrainingArguments("out", use_cpu=True, report_to="none", disable_tqdm=True)
    examples = [{"input_ids": row, "labels": row} for row in rows]
    measured = Trainer(model, arguments).evaluate(examples)["eval_loss"]
    print(f"{name}: model {own:.4f}, eval_loss {measured:.4f}, ratio {measured / own:.3f}")
    return round(measured / own, 3)


assigned = GPT2LMHeadModel(GPT2Config(**GPT2))
assigned.loss_type = "ForCausalLM"
found = [
    ratio("GPT2LMHeadModel", GPT2LMHeadModel(GPT2Config(**GPT2))),
    ratio("GPT2LMHeadModel, config.loss_type", GPT2LMHeadModel(GPT2Config(**GPT2, loss_type="ForCausalLM"))),
    ratio("GPT2LMHeadModel, model.loss_type", assigned),
    ratio("GPTNeoXForCausalLM", GPTNeoXForCausalLM(GPTNeoXConfig(**NEOX))),
]
assert found == [0.75, 0.75, 1.0, 1.0], found
PY
v/bin/python seen.py 2>/dev/null | grep ', ratio'

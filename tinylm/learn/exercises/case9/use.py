"""The log-probability of each word that is drawn after a prompt."""

import pandas as pd

from tinylm.base import paths
from tinylm.decoding import sampling
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.model.checkpoint import load_model
from tinylm.vocab.open_tokenizer import open_tokenizer


def run(updates):
    model, _ = load_model(paths.MODELS)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    ids = tokenizer.encode_prompt("once upon a time", "the prompt")
    settings = DecodeSettings(temperature=0.8, top_k=50, top_p=0.9)
    decoder = Decoder(model=model.double(), eos_id=tokenizer.eos_id, banned=banned_ids(tokenizer))
    (new,) = sampling.generate(
        decoder, [ids], settings, max_new_tokens=60, stop_at_eos=False, with_log_probs=True
    )
    return pd.DataFrame({"log_prob": new.log_probs}), [tokenizer.decode([*ids, *new.ids])]


def replacements(student):
    return {"tinylm.decoding.filters.top_p": student.top_p}

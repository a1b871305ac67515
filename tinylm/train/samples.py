"""Samples that training prints as it runs.

They change no result, so stage train does not depend on what this file imports.
"""

from tinylm.base.config import PARAMS_FILE
from tinylm.base.printable import visible
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.model.transformer import TinyLM
from tinylm.train.cores import one_thread
from tinylm.vocab.tokenizer import Tokenizer

TEMPERATURE = 0.7
TOP_K = 40
NEW_TOKENS = 60


class SamplePrinter:
    """Prints a continuation of the prompt whenever it is called.

    Raises InputError if the prompt has no token.
    """

    def __init__(self, model: TinyLM, tokenizer: Tokenizer, prompt: str, seed: int) -> None:
        self._decoder = Decoder(model=model, eos_id=tokenizer.eos_id, banned=banned_ids(tokenizer))
        self._tokenizer = tokenizer
        self._prompt = tokenizer.encode_prompt(prompt, f"{PARAMS_FILE}: runtime.sample_prompt")
        self._settings = DecodeSettings(temperature=TEMPERATURE, top_k=TOP_K, seed=seed)

    def __call__(self, tokens: int) -> None:
        """tokens: the number of tokens that the model has been trained on."""
        with one_thread():
            (continuation,) = generate(
                self._decoder, [self._prompt], self._settings, max_new_tokens=NEW_TOKENS
            )
        text = self._tokenizer.decode([*self._prompt, *continuation.ids])
        print(f"sample after {tokens:,} tokens: {visible(text)}", flush=True)

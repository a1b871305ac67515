"""llama.cpp (github.com/ggml-org/llama.cpp) through the plain C interface of llama-cpp-python, on our GGUF file in F32.

Each step is llama_decode over one token of every text and llama_sampler_sample for each, as in llama.cpp's own
examples. It has no beam search.
"""

import ctypes
from pathlib import Path
from typing import Any

from benchmarks.contenders.decoding import Prompts, timed_step
from benchmarks.frame import Setup, Step
from tinylm.exchange.gguf_file import write_gguf
from tinylm.model.checkpoint import load_model
from tinylm.vocab.open_tokenizer import open_tokenizer

SEED = 1
MICRO_BATCH = 512


def _gguf(setup: Setup) -> Path:
    """The checkpoint as GGUF, written once."""
    path = Path(setup["export"]).with_name("f32.gguf")
    if not path.exists():
        model, _ = load_model(setup["models"], "cpu")
        write_gguf(path, model, open_tokenizer(setup["vocab"]))
    return path


class _Llama:
    """One context with room for `sequences` texts of `length` tokens side by side."""

    def __init__(self, path: Path, threads: int, sequences: int, length: int) -> None:
        import llama_cpp

        self.api: Any = llama_cpp
        self._silent = self.api.llama_log_callback(lambda *_: None)  # the library keeps calling it
        self.api.llama_log_set(self._silent, ctypes.c_void_p(0))
        self.api.llama_backend_init()
        defaults = self.api.llama_model_default_params()
        self.model = self.api.llama_model_load_from_file(str(path).encode(), defaults)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        params = self.api.llama_context_default_params()
        params.n_ctx = params.n_batch = sequences * length
        params.n_ubatch = MICRO_BATCH
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = self.api.llama_init_from_model(self.model, params)
        self.batch = self.api.llama_batch_init(sequences * length, 0, 1)
        self.samplers = {
            "greedy": self._sampler(self.api.llama_sampler_init_greedy()),
            "sample": self._sampler(self.api.llama_sampler_init_dist(SEED)),
        }

    def _sampler(self, last: Any) -> Any:
        chain = self.api.llama_sampler_chain_init(self.api.llama_sampler_chain_default_params())
        self.api.llama_sampler_chain_add(chain, last)
        return chain

    def _feed(self, rows: Prompts, start: int) -> list[int]:
        """Decode the tokens of each sequence from position `start`; returns the index of each one's last token."""
        batch = self.batch
        index = 0
        last = []
        for sequence, tokens in enumerate(rows):
            for offset, token in enumerate(tokens):
                batch.token[index] = token
                batch.pos[index] = start + offset
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = sequence
                batch.logits[index] = offset == len(tokens) - 1
                index += 1
            last.append(index - 1)
        batch.n_tokens = index
        if code := self.api.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode: {code}")
        return last

    def decode(self, prompts: Prompts, method: str, new_tokens: int) -> Prompts:
        """Continue prompts of one length, each by this many tokens."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        sampler = self.samplers[method]
        texts: Prompts = [[] for _ in prompts]
        rows = prompts
        start = 0
        for _ in range(new_tokens):
            last = self._feed(rows, start)
            start += len(rows[0])
            rows = [[self.api.llama_sampler_sample(sampler, self.context, row)] for row in last]
            for text, row in zip(texts, rows, strict=True):
                text += row
        return texts


def make(setup: Setup) -> Step:
    """setup: models, vocab, export, threads, sequences (texts at once)"""
    new_tokens = setup["new_tokens"]
    length = len(setup["prompts"][0]) + new_tokens
    llama = _Llama(_gguf(setup), setup["threads"], setup["sequences"], length)
    return timed_step(setup, lambda group, method: llama.decode(group, str(method), new_tokens))

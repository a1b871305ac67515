"""llama.cpp (github.com/ggml-org/llama.cpp) through llama-cpp-python's plain C interface, on our own GGUF file.

The weights are the checkpoint's. Each step is llama_decode over one token of every text and llama_sampler_sample for
each, as in llama.cpp's own examples; it has no beam search.
"""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.contenders.decoding import Prompts, own_step
from benchmarks.serve import Step
from tinylm.exchange.gguf_file import write_gguf
from tinylm.model.checkpoint import load_model
from tinylm.vocab.tokenizer import open_tokenizer


def _file(setup: Mapping[str, Any]) -> Path:
    """The checkpoint as GGUF, made once beside it."""
    path = Path(setup["export"]).with_name(f"{setup['weights']}.gguf")
    if not path.exists():
        model, _ = load_model(setup["models"], "cpu")
        write_gguf(path, model, open_tokenizer(setup["vocab"]), setup["weights"])
    return path


class _Llama:
    """One context with room for all texts at once. prompts: as many sequences as there may be side by side."""

    def __init__(self, path: Path, threads: int, sequences: int, length: int) -> None:
        import llama_cpp

        self.api: Any = llama_cpp
        self._quiet = self.api.llama_log_callback(lambda *_: None)  # kept: the library calls it
        self.api.llama_log_set(self._quiet, ctypes.c_void_p(0))
        self.api.llama_backend_init()
        self.model = self.api.llama_model_load_from_file(
            str(path).encode(), self.api.llama_model_default_params()
        )
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        params = self.api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = sequences * length, sequences * length, 512
        params.n_seq_max, params.n_threads, params.n_threads_batch, params.no_perf = (
            sequences,
            threads,
            threads,
            True,
        )
        self.context = self.api.llama_init_from_model(self.model, params)
        self.batch = self.api.llama_batch_init(sequences * length, 0, 1)
        chain = self.api.llama_sampler_chain_default_params()
        self.samplers = {
            name: self.api.llama_sampler_chain_init(chain) for name in ("greedy", "sample")
        }
        self.api.llama_sampler_chain_add(
            self.samplers["greedy"], self.api.llama_sampler_init_greedy()
        )
        self.api.llama_sampler_chain_add(
            self.samplers["sample"], self.api.llama_sampler_init_dist(1)
        )

    def _feed(self, rows: Prompts, start: int, last: list[int]) -> list[int]:
        """Decode the tokens of each sequence from position `start` (of each); returns the row of each last token."""
        at, batch = 0, self.batch
        last.clear()
        for sequence, tokens in enumerate(rows):
            for offset, token in enumerate(tokens):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, start + offset, 1
                batch.seq_id[at][0], batch.logits[at] = sequence, offset == len(tokens) - 1
                at += 1
            last.append(at - 1)
        batch.n_tokens = at
        if code := self.api.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode: {code}")
        return last

    def decode(self, prompts: Prompts, method: str, new_tokens: int) -> Prompts:
        """Continue prompts of one length, each by so many tokens."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        sampler, rows, start = self.samplers[method], prompts, 0
        made: Prompts = [[] for _ in prompts]
        last: list[int] = []
        for _ in range(new_tokens):
            self._feed(rows, start, last)
            start += len(rows[0])
            rows = [[self.api.llama_sampler_sample(sampler, self.context, row)] for row in last]
            for text, (token,) in zip(made, rows, strict=True):
                text.append(token)
        return made


def make(setup: Mapping[str, Any]) -> Step:
    """setup: models, vocab, export, weights (f32 | f16 | q8_0), threads, sequences (texts at once)"""
    prompts, new = setup["prompts"], setup["new_tokens"]
    assert len(set(map(len, prompts))) == 1
    llama = _Llama(_file(setup), setup["threads"], setup["sequences"], len(prompts[0]) + new)
    return own_step(setup, lambda group, method: llama.decode(group, str(method), new))

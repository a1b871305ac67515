"""What `growth` measures: seconds per training step, per decoded batch, and to count and encode some text.

A request with `limit` answers what was counted: operations, bytes, and the machine's rates of both.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tinylm.benchmarks.checkpoint import WORDS
from tinylm.benchmarks.contenders.decoding import our_decode
from tinylm.benchmarks.serve import Step, seconds
from tinylm.benchmarks.shape import ADAMW_BF16, Shape, new_trainer, train_settings, untrained
from tinylm.kernels.decoding.decoder import prepare
from tinylm.model.describe import summary
from tinylm.storybook import corpus
from tinylm.vocab.words import build_tokenizer, count_words


def flop_per_s(tiny: bool, bf16: bool) -> float:
    """Operations per second of a large matrix product."""
    rows, inner, columns = (64, 32, 64) if tiny else (2048, 1200, 1200)
    dtype = torch.bfloat16 if bf16 else torch.float32
    a, b = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    return 2 * rows * inner * columns / min(seconds(lambda: a @ b) for _ in range(50))


def bytes_per_s(size: float) -> float:
    """Bytes per second at which `size` bytes are read repeatedly, from a cache if they fit in one."""
    block = torch.ones(max(1, int(size) // 4))
    return block.nbytes / min(seconds(block.sum) for _ in range(20))


def _step(work: Callable[[], object], limit: Callable[[], dict[str, float]]) -> Step:
    return lambda request: limit() if "limit" in request else {"seconds": seconds(work)}


def train(setup: Mapping[str, Any]) -> Step:
    """One update in bf16. setup: shape"""
    shape = Shape(**setup["shape"])
    trainer = new_trainer(shape, train_settings(shape, **ADAMW_BF16), setup["threads"])

    def limit() -> dict[str, float]:
        flop = summary(trainer.model)["training_flop_per_token"] * shape.step_tokens
        return {
            "flop": flop,
            "threads": setup["threads"],
            "flop_per_s": flop_per_s(setup["tiny"], bf16=True),
        }

    return _step(lambda: trainer.update(trainer.next_batches()), limit)


def decode(setup: Mapping[str, Any]) -> Step:
    """Untrained weights, prompts of five tokens, texts of fixed length. setup: shape, new_tokens, batch, beams"""
    torch.set_num_threads(setup["threads"])
    model = untrained(Shape(**setup["shape"])).eval()
    new, beams = setup.get("new_tokens", 4 if setup["tiny"] else 55), setup.get("beams")
    prompts = [[4 + number % 50, 5, 6, 7, 8] for number in range(setup.get("batch", 1))]
    decoder = prepare(model, "auto")
    run = our_decode(model, decoder, new)

    def limit() -> dict[str, float]:
        costs, rows, bf16 = summary(model), len(prompts) * (beams or 1), decoder.precision == "bf16"
        weights = costs["weight_bytes"] / (2 if bf16 else 1)
        work = {"flop": costs["forward_flop_per_token"] * rows * new, "bytes": weights * new}
        return work | {
            "flop_per_s": flop_per_s(setup["tiny"], bf16),
            "bytes_per_s": bytes_per_s(weights),
        }

    return _step(lambda: run(prompts, beams or "greedy"), limit)


def data(setup: Mapping[str, Any]) -> Step:
    """Storybook text, words counted and then encoded, in this process. setup: megabytes"""
    stories = [story.text for story in corpus.generate(300, 1, 1)[0]]
    size = setup["megabytes"] * (20_000 if setup["tiny"] else 1_000_000)
    repeats = max(1, round(size / sum(map(len, stories))))

    def run() -> None:
        words = build_tokenizer(
            count_words(itertools.chain.from_iterable([stories] * repeats), WORDS), WORDS
        )
        for text in itertools.chain.from_iterable([stories] * repeats):
            words.encode_story(text)

    return _step(run, dict)

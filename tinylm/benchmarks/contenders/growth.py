"""What `growth` measures: seconds of one training step, of one decoded batch, of counting and encoding some text.

A request with `limit` tells what was counted: operations, bytes, and the machine's rates of both.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from tinylm.benchmarks.serve import Step


def flop_per_s(tiny: bool, low: bool) -> float:
    """Operations a second of a large matrix product; `low`: in bf16."""
    import torch

    rows, inner, columns = (64, 32, 64) if tiny else (2048, 1200, 1200)
    dtype = torch.bfloat16 if low else torch.float32
    a, b = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    return 2 * rows * inner * columns / min(_seconds(lambda: a @ b) for _ in range(50))


def bytes_per_s(size: float) -> float:
    """Bytes a second at which `size` bytes are read again and again, out of a cache where they fit one."""
    import torch

    block = torch.ones(max(1, int(size) // 4))
    return block.nbytes / min(_seconds(block.sum) for _ in range(20))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def train(setup: Mapping[str, Any]) -> Step:
    """setup: shape; one update in bf16."""
    from tinylm.benchmarks.shape import Shape, new_trainer
    from tinylm.cost.describe import summary

    shape = Shape(**setup["shape"])
    trainer = new_trainer(shape, dict(setup) | {"settings": {"precision": "bf16", "optimizer": "adamw"}})

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        if "limit" in request:
            flop = summary(trainer.model)["training_flop_per_token"] * shape.step_tokens
            return {"flop": flop, "threads": setup["threads"], "flop_per_s": flop_per_s(setup["tiny"], low=True)}
        return {"seconds": _seconds(lambda: trainer.update(trainer.next_batches()))}

    return step


def decode(setup: Mapping[str, Any]) -> Step:
    """setup: shape; new_tokens, batch, beams; untrained weights, prompts of five tokens, texts of fixed length."""
    import torch

    from tinylm.benchmarks.contenders.our_decoding import prepared, settings
    from tinylm.benchmarks.shape import Shape, untrained
    from tinylm.cost.describe import summary
    from tinylm.decoding.beam import beam_search
    from tinylm.decoding.sampling import generate

    torch.set_num_threads(setup["threads"])
    shape = Shape(**setup["shape"])
    model, greedy = untrained(shape).eval(), settings().greedy()
    new = setup.get("new_tokens", 4 if setup["tiny"] else 55)
    prompts = [[4 + number % 50, 5, 6, 7, 8] for number in range(setup.get("batch", 1))]
    beams = setup.get("beams")
    fast = prepared(model, "auto")

    def run() -> None:
        if beams is None:
            generate(model, prompts, greedy, max_new_tokens=new, eos_id=None, banned=[], **fast)
        else:
            beam_search(model, prompts, width=beams, max_new_tokens=new, eos_id=None, banned=[], **fast)

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        if "limit" in request:
            told, rows, low = summary(model), len(prompts) * (beams or 1), fast["decoder"].precision == "bf16"
            weights = told["weight_bytes"] / (2 if low else 1)
            work = {"flop": told["forward_flop_per_token"] * rows * new, "bytes": weights * new}
            return work | {"flop_per_s": flop_per_s(setup["tiny"], low), "bytes_per_s": bytes_per_s(weights)}
        return {"seconds": _seconds(run)}

    return step


def data(setup: Mapping[str, Any]) -> Step:
    """setup: megabytes; storybook text, words counted and then encoded, in this process."""
    from tinylm.benchmarks.checkpoint import WORDS
    from tinylm.text.storybook import corpus
    from tinylm.text.tokens.words import build_tokenizer, count_words

    stories = [story.text for story in corpus.generate(300, 1, 1)[0]]
    size = setup["megabytes"] * (20_000 if setup["tiny"] else 1_000_000)
    repeats = max(1, round(size / sum(map(len, stories))))

    def run() -> None:
        words = build_tokenizer(count_words(itertools.chain.from_iterable([stories] * repeats), WORDS), WORDS)
        for _ in range(repeats):
            for text in stories:
                words.encode_story(text)

    return lambda request: {} if "limit" in request else {"seconds": _seconds(run)}

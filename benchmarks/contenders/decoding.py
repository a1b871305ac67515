"""Contenders that decode texts of fixed length from the same weights and prompts: tinylm and CTranslate2.

Every setup has `prompts`, `new_tokens` and `threads`. A request names a method (sample | greedy | the width of a beam).
With `alone`, so many of the first prompts are decoded one at a time; otherwise all at once. The answer is
{seconds, tokens, ids}, with ids only for greedy decoding.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.frame import Setup, Step, seconds
from tinylm.base.files import atomic_folder
from tinylm.base.seeding import seed_everything
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import load_model

Prompts = list[list[int]]
Decode = Callable[[Prompts, str | int], Prompts]


def timed_step(setup: Setup, decode: Decode) -> Step:
    """The step that decodes the prompts that a request asks for, and times it."""

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        method = request["method"]
        alone = request["alone"]
        groups = [setup["prompts"]]
        if alone is not None:
            groups = [[prompt] for prompt in setup["prompts"][:alone]]
        ids: Prompts = []

        def work() -> None:
            for group in groups:
                ids.extend(decode(group, method))

        answer: dict[str, Any] = {"seconds": seconds(work), "tokens": sum(map(len, ids))}
        return answer | {"ids": ids if method == "greedy" else []}

    return step


def our_decode(decoder: Decoder, new_tokens: int) -> Decode:
    """decode(prompts, method) by `generate` and `beam_search`; samples are drawn from the model's own distribution."""
    sampled = DecodeSettings()

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        if isinstance(method, int):
            beams = BeamSettings(width=method)
            hypotheses = beam_search(decoder, prompts, beams, max_new_tokens=new_tokens)
            return [best.ids for best, *_ in hypotheses]
        settings = sampled.greedy() if method == "greedy" else sampled
        rows = generate(decoder, prompts, settings, max_new_tokens=new_tokens)
        return [row.ids for row in rows]

    return decode


def ours(setup: Setup) -> Step:
    """`generate` and `beam_search` in fp32. setup: models, step (auto: the native kernels; plain: PyTorch)."""
    seed_everything(1, setup["threads"])
    model, _ = load_model(setup["models"], "cpu")
    step = decoding_step(model, setup["step"])
    decoder = Decoder(model=model, eos_id=None, banned=[], step=step)
    return timed_step(setup, our_decode(decoder, setup["new_tokens"]))


def ctranslate2(setup: Setup) -> Step:
    """CTranslate2 in fp32. setup: export, workers (each takes a share of the prompts)"""
    import ctranslate2

    target = Path(setup["export"]).with_name("ctranslate2")
    if not target.exists():
        with atomic_folder(target) as folder:
            converter = ctranslate2.converters.TransformersConverter(setup["export"])
            converter.convert(str(folder), force=True)
    workers = setup["workers"]
    length = setup["new_tokens"]
    threads = max(1, setup["threads"] // workers)
    generator = ctranslate2.Generator(
        str(target), device="cpu", inter_threads=workers, intra_threads=threads
    )
    tokens = json.loads((target / "vocabulary.json").read_text(encoding="utf-8"))

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        how = {"beam_size": 1, "sampling_topk": 1}
        if method == "sample":
            how["sampling_topk"] = 0
        elif isinstance(method, int):
            how["beam_size"] = method
        rows = generator.generate_batch(
            [[tokens[index] for index in prompt] for prompt in prompts],
            max_batch_size=-(-len(prompts) // workers),
            max_length=length,
            min_length=length,
            include_prompt_in_result=False,
            end_token=[],
            **how,
        )
        return [row.sequences_ids[0] for row in rows]

    return timed_step(setup, decode)

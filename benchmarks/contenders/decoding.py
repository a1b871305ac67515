"""Contenders that decode texts of fixed length from the same weights and prompts: tinylm, transformers, CTranslate2.

Every setup has `prompts`, `new_tokens` and `threads`. A request names a method (sample | greedy | the width of a beam).
With `alone`, so many of the first prompts are decoded one at a time; otherwise all at once. The answer is
{seconds, tokens, ids}, with ids only for greedy decoding.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.serve import Step, seconds
from tinylm.base.config import read_section
from tinylm.base.files import atomic_folder
from tinylm.base.seeding import seed_everything
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Step as DecodingStep
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.loading import read_params
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM

Prompts = list[list[int]]
Decode = Callable[[Prompts, str | int], Prompts]
MODEL_DISTRIBUTION = {
    "temperature": 1.0,
    "temperature_end": None,
    "top_k": 0,
    "top_p": 1.0,
    "repetition_penalty": 1.0,
}


def timed_step(setup: Mapping[str, Any], decode: Decode) -> Step:
    """The step that decodes the prompts that a request asks for, and times it."""

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        method, alone = request["method"], request["alone"]
        groups = [setup["prompts"]]
        if alone is not None:
            groups = [[prompt] for prompt in setup["prompts"][:alone]]
        ids: Prompts = []

        def work() -> None:
            for group in groups:
                ids.extend(decode(group, method))

        taken = seconds(work)
        tokens = sum(map(len, ids))
        return {"seconds": taken, "tokens": tokens, "ids": ids if method == "greedy" else []}

    return step


def our_decode(model: TinyLM, step: DecodingStep | None, new_tokens: int) -> Decode:
    """decode(prompts, method) by `generate` and `beam_search`; samples are drawn from the model's own distribution."""
    section = {"decode": read_params()["decode"] | MODEL_DISTRIBUTION}
    sampled = read_section(section, "decode", DecodeSettings)
    fixed: dict[str, Any] = {
        "max_new_tokens": new_tokens,
        "eos_id": None,
        "banned": [],
        "stop_at_eos": False,
        "step": step,
    }

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        if isinstance(method, int):
            hypotheses = beam_search(model, prompts, width=method, length_penalty=0.0, **fixed)
            return [best.ids for best, *_ in hypotheses]
        settings = sampled.greedy() if method == "greedy" else sampled
        return [row.ids for row in generate(model, prompts, settings=settings, **fixed)]

    return decode


def ours(setup: Mapping[str, Any]) -> Step:
    """`generate` and `beam_search` in fp32. setup: models, step (auto: the native kernels; plain: PyTorch)."""
    seed_everything(1, setup["threads"])
    model, _ = load_model(setup["models"], "cpu")
    step = decoding_step(model, DecodeSettings(step=setup["step"]))
    return timed_step(setup, our_decode(model, step, setup["new_tokens"]))


def transformers(setup: Mapping[str, Any]) -> Step:
    """setup: export"""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    model: Any = AutoModelForCausalLM.from_pretrained(setup["export"]).eval()
    generation = model.generation_config
    generation.eos_token_id = generation.bos_token_id = generation.suppress_tokens = None
    new_tokens = setup["new_tokens"]
    fixed = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens, "pad_token_id": 0}
    own_distribution = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        ids = torch.tensor(prompts)
        how: dict[str, Any] = {"do_sample": False}
        if method == "sample":
            how = own_distribution
        elif isinstance(method, int):
            how["num_beams"] = method
        with torch.inference_mode():
            rows = model.generate(ids, attention_mask=torch.ones_like(ids), **fixed, **how)
        return rows[:, ids.shape[1] :].tolist()

    return timed_step(setup, decode)


def ctranslate2(setup: Mapping[str, Any]) -> Step:
    """setup: export, workers (each takes a share of the prompts)"""
    import ctranslate2

    target = Path(setup["export"]).with_name("ctranslate2")
    if not target.exists():
        with atomic_folder(target) as folder:
            converter = ctranslate2.converters.TransformersConverter(setup["export"])
            converter.convert(str(folder), force=True)
    workers, length = setup["workers"], setup["new_tokens"]
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

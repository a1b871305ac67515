"""Contenders that decode texts of fixed length from the same weights and prompts: tinylm, transformers, CTranslate2.

Every setup has `prompts`, `new_tokens` and `threads`. A request names a method (sample | greedy | a beam's width) and
may have `alone`, how many of the first prompts to decode one at a time; otherwise all are decoded at once. The answer
is {seconds, tokens, ids}, with ids only for greedy decoding.
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
from tinylm.decoding.session import Decoder
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.loading import read_params
from tinylm.kernels.decoding.decoder import prepare
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM

Prompts = list[list[int]]
Decode = Callable[[Prompts, str | int], Prompts]
OWN_DISTRIBUTION = {
    "temperature": 1.0,
    "temperature_end": None,
    "top_k": 0,
    "top_p": 1.0,
    "repetition_penalty": 1.0,
}
MODES = (
    "fp32",
    "bf16",
    "int8",
    "plain",
)  # plain: the readable path in fp32, the others the native kernels


def own_step(setup: Mapping[str, Any], decode: Decode) -> Step:
    """The step that decodes what is asked for by `decode`, and times it."""

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        prompts, method, alone = setup["prompts"], request["method"], request.get("alone")
        ids: Prompts = []
        groups = [prompts] if alone is None else [[prompt] for prompt in prompts[:alone]]
        time = seconds(lambda: ids.extend(row for group in groups for row in decode(group, method)))
        return {
            "seconds": time,
            "tokens": sum(map(len, ids)),
            "ids": ids if method == "greedy" else [],
        }

    return step


def our_decode(model: TinyLM, decoder: Decoder | None, new_tokens: int) -> Decode:
    """decode(prompts, method) by `generate` and `beam_search`; by the plain implementation if there is no decoder.

    The other settings are those of section `decode`; samples are drawn from the model's own distribution.
    """
    drawn = read_section(
        {"decode": read_params()["decode"] | OWN_DISTRIBUTION}, "decode", DecodeSettings
    )
    fixed: dict[str, Any] = {"eos_id": None, "banned": [], "stop_at_eos": False, "decoder": decoder}
    fixed["max_new_tokens"] = new_tokens

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        if isinstance(method, int):
            return [
                best.ids
                for best, *_ in beam_search(
                    model, prompts, width=method, length_penalty=0.0, **fixed
                )
            ]
        settings = drawn.greedy() if method == "greedy" else drawn
        return [row.ids for row in generate(model, prompts, settings=settings, **fixed)]

    return decode


def ours(setup: Mapping[str, Any]) -> Step:
    """`generate` and `beam_search`, as the command generate and stage evaluate call them. setup: models, mode"""
    seed_everything(1, setup["threads"])
    model, _ = load_model(setup["models"], "cpu")
    decoder = None if setup["mode"] == "plain" else prepare(model, setup["mode"])
    return own_step(setup, our_decode(model, decoder, setup["new_tokens"]))


def transformers(setup: Mapping[str, Any]) -> Step:
    """setup: export"""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    model: Any = AutoModelForCausalLM.from_pretrained(setup["export"]).eval()
    new, own = setup["new_tokens"], model.generation_config
    own.eos_token_id = own.bos_token_id = own.suppress_tokens = None
    fixed = {
        "max_new_tokens": new,
        "min_new_tokens": new,
        "eos_token_id": None,
        "pad_token_id": 0,
        "use_cache": True,
    }

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        ids = torch.tensor(prompts)
        how: dict[str, Any] = {
            "do_sample": method == "sample",
            "num_beams": method if isinstance(method, int) else 1,
        }
        if method == "sample":
            how |= {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        with torch.inference_mode():
            made = model.generate(ids, attention_mask=torch.ones_like(ids), **fixed, **how)
        return made[:, ids.shape[1] :].tolist()

    return own_step(setup, decode)


def ctranslate2(setup: Mapping[str, Any]) -> Step:
    """setup: export, quantization (None | int8), workers (each takes a share of the prompts)"""
    import ctranslate2

    target = Path(setup["export"]).with_name(f"ctranslate2-{setup['quantization'] or 'float32'}")
    if not target.exists():  # the export in CTranslate2's format, made once, beside it
        with atomic_folder(target) as new:
            converter = ctranslate2.converters.TransformersConverter(setup["export"])
            converter.convert(str(new), quantization=setup["quantization"], force=True)
    workers, length = setup["workers"], setup["new_tokens"]
    threads = max(1, setup["threads"] // workers)
    generator = ctranslate2.Generator(
        str(target), device="cpu", inter_threads=workers, intra_threads=threads
    )
    tokens = json.loads((target / "vocabulary.json").read_text(encoding="utf-8"))

    def decode(prompts: Prompts, method: str | int) -> Prompts:
        how: dict[str, Any] = (
            {"beam_size": method}
            if isinstance(method, int)
            else {"beam_size": 1, "sampling_topk": 1}
        )
        if method == "sample":
            how["sampling_topk"] = 0
        made = generator.generate_batch(
            [[tokens[index] for index in prompt] for prompt in prompts],
            max_batch_size=-(-len(prompts) // workers), max_length=length, min_length=length,
            include_prompt_in_result=False, end_token=[], **how,
        )  # fmt: skip
        return [row.sequences_ids[0] for row in made]

    return own_step(setup, decode)

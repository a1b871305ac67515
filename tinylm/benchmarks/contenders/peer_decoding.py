"""Decoding by transformers and by CTranslate2: the same exported model, the same prompts, texts of fixed length."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_folder
from tinylm.benchmarks.contenders.our_decoding import timed
from tinylm.benchmarks.serve import Step


def transformers(setup: Mapping[str, Any]) -> Step:
    """setup: export, prompts, new_tokens; requests as those of `our_decoding`."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    model: Any = AutoModelForCausalLM.from_pretrained(setup["export"]).eval()
    new, own = setup["new_tokens"], model.generation_config
    own.eos_token_id = own.bos_token_id = own.suppress_tokens = None
    fixed = {"max_new_tokens": new, "min_new_tokens": new, "eos_token_id": None, "pad_token_id": 0, "use_cache": True}

    def decode(prompts: list[list[int]], method: str | int) -> list[list[int]]:
        ids = torch.tensor(prompts)
        how: dict[str, Any] = {"do_sample": method == "sample", "num_beams": method if isinstance(method, int) else 1}
        if method == "sample":
            how |= {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        with torch.inference_mode():
            made = model.generate(ids, attention_mask=torch.ones_like(ids), **fixed, **how)
        return made[:, ids.shape[1] :].tolist()

    return lambda request: timed(decode, setup["prompts"], request)


def _converted(export: str, quantization: str | None) -> str:
    """The export in CTranslate2's format, made once, beside it."""
    import ctranslate2

    target = Path(export).with_name(f"ctranslate2-{quantization or 'float32'}")
    if not target.exists():
        with atomic_folder(target) as new:
            ctranslate2.converters.TransformersConverter(export).convert(
                str(new), quantization=quantization, force=True
            )
    return str(target)


def ct2(setup: Mapping[str, Any]) -> Step:
    """setup: export, prompts, new_tokens, quantization (None | int8), workers (each takes a share of the prompts)."""
    import ctranslate2

    workers, new = setup.get("workers", 1), setup["new_tokens"]
    folder = _converted(setup["export"], setup["quantization"])
    threads = max(1, setup["threads"] // workers)
    generator = ctranslate2.Generator(folder, device="cpu", inter_threads=workers, intra_threads=threads)
    tokens = json.loads(Path(folder, "vocabulary.json").read_text(encoding="utf-8"))

    def decode(prompts: list[list[int]], method: str | int) -> list[list[int]]:
        how: dict[str, Any] = {"beam_size": method} if isinstance(method, int) else {"beam_size": 1, "sampling_topk": 1}
        if method == "sample":
            how["sampling_topk"] = 0
        made = generator.generate_batch(
            [[tokens[index] for index in prompt] for prompt in prompts],
            max_batch_size=-(-len(prompts) // workers), max_length=new, min_length=new,
            include_prompt_in_result=False, end_token=[], **how,
        )  # fmt: skip
        return [row.sequences_ids[0] for row in made]

    return lambda request: timed(decode, setup["prompts"], request)

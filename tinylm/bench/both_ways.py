"""The samples of stage evaluate with and without the key-value cache: the same texts at different cost."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from tinylm.bench import measure
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.bleu import Bleu
from tinylm.evaluate.continuations import EvaluateSettings, never_generated
from tinylm.kernels.decoding.decoder import decoder_of
from tinylm.model.transformer import TinyLM
from tinylm.vocab.prompts import Prompt
from tinylm.vocab.tokenizer import Tokenizer


def samples_both_ways(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(figures, times) of the samples of stage evaluate with and without the cache, by the readable step in fp32.

    figures: texts, how many of them are the same, and BLEU-4 of both against the prompts' references. times: seconds
    (one trial) and the allocator's peak of both; without a cache that of the step with the longest window.
    """
    readable, device = (
        dataclasses.replace(decode, step="plain", precision="fp32"),
        model.embedding.device,
    )
    ids = [prompt.ids for prompt in prompts]
    references = [tokenizer.decode(prompt.reference) for prompt in prompts]

    def run(rows: Sequence[Sequence[int]], cache: bool, new_tokens: int) -> list[list[int]]:
        texts = generate(
            model, rows, readable, decoder=decoder_of(model, readable), eos_id=tokenizer.eos_id, use_cache=cache,
            max_new_tokens=new_tokens, stop_at_eos=settings.stop_at_eos,
            banned=never_generated(tokenizer, settings.stop_at_eos),
        )  # fmt: skip
        measure.synchronize(device)
        return [text.ids for text in texts]

    found: dict[str, list[list[int]]] = {}
    times: dict[str, Any] = {}
    for name, cache in (("cache", True), ("no_cache", False)):
        begun = time.perf_counter()
        found[name] = run(ids, cache, settings.new_tokens)
        times[name] = {"s": time.perf_counter() - begun}
    longest = max(
        ([*row, *new[:-1]] for row, new in zip(ids, found["no_cache"], strict=True)), key=len
    )
    widest = [longest[: model.settings.context]] * len(ids)
    times["cache"]["peak_mib"] = measure.peak_mib(
        lambda: run(ids, True, settings.new_tokens), device
    )
    times["no_cache"]["peak_mib"] = measure.peak_mib(lambda: run(widest, False, 1), device)
    bleu = {
        name: Bleu().compute(
            predictions=list(map(tokenizer.decode, new)), references=references, tokenize="none"
        )
        for name, new in found.items()
    }
    same = sum(one == other for one, other in zip(found["cache"], found["no_cache"], strict=True))
    return {
        "texts": len(ids),
        "same": same,
        "bleu4": {name: row["bleu4"] for name, row in bleu.items()},
    }, times

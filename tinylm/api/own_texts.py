"""What section `report` asks of the trained model: own prompts continued, own sentences looked at by every head."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tinylm.base import paths
from tinylm.base.config import InputError, read_section
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids, encode_prompt
from tinylm.evaluate.attention_maps import MAX_TOKENS, attention
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.model.transformer import TinyLM
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import Run, Sentence
from tinylm.vocab.tokenizer import Tokenizer, open_tokenizer


def with_own_texts(
    run: Run, settings: ReportSettings, device: torch.device, folder: str | Path = "."
) -> Run:
    """The run with `own_texts` and `own_sentences`, from the model below `folder`, as far as they are asked for.

    own_texts: a row per prompt of section `report`, continued by section `decode` for at most evaluate.new_tokens
    tokens. own_sentences: (Sentence, one for each checkpoint) of each, where weights of epochs were kept. What
    cannot be made is named in the run's problems.
    """
    root = Path(folder)
    results = dict(run.files)
    problems = dict(run.problems)
    try:
        model, _ = load_model(root / paths.MODELS, device)
        check_vocabulary(root / paths.MODELS, root / paths.TOKENIZER)
        tokenizer = open_tokenizer(root / paths.TOKENIZER)
        if settings.prompts:
            results["own_texts"] = _continued(model, tokenizer, settings.prompts, run.params)
        if settings.sentences:
            checkpoints = list(load_checkpoints(root / paths.MODELS, device))
            room = min(MAX_TOKENS, model.settings.context)
            sentences = []
            for number, text in enumerate(settings.sentences, start=1):
                ids = _ids(tokenizer, text, "sentences", number)[:room]
                sentences.append(_attended(model, checkpoints, tokenizer.tokens, ids))
            results["own_sentences"] = sentences
    except InputError as error:
        problems["own_texts"] = str(error).splitlines()[0]
    return dataclasses.replace(run, files=results, problems=problems)


def _ids(tokenizer: Tokenizer, text: str, key: str, number: int) -> list[int]:
    return encode_prompt(tokenizer, text, f"report.{key}: text {number}")


def _continued(
    model: TinyLM, tokenizer: Tokenizer, prompts: tuple[str, ...], params: dict[str, Any]
) -> list[dict]:
    decode = read_section(params, "decode", DecodeSettings)
    most = read_section(params, "evaluate", EvaluateSettings).new_tokens
    new = generate(
        model,
        [_ids(tokenizer, text, "prompts", number) for number, text in enumerate(prompts, start=1)],
        decode,
        max_new_tokens=most,
        eos_id=tokenizer.eos_id,
        banned=banned_ids(tokenizer),
        with_log_probs=True,
        step=decoding_step(model, decode),
    )
    return [
        {
            "prompt": prompt,
            "unknown": list(dict.fromkeys(tokenizer.unknown_words(prompt))),
            "continuation": tokenizer.decode(text.ids),
            "perplexity": perplexity(-sum(text.log_probs), len(text.ids)),
            "finished": text.finished,
            "how": f"{decode.in_words()}, at most {most} new tokens",
        }
        for prompt, text in zip(prompts, new, strict=True)
    ]


def _attended(
    model: TinyLM, checkpoints: list[tuple[float, TinyLM]], tokens: list[str], ids: list[int]
) -> tuple[Sentence, list[Sentence]]:
    """Attention over one row of ids: of the trained model, and of each checkpoint."""
    words = [tokens[token] for token in ids]

    def maps_of(read_by: TinyLM) -> tuple[list[str], np.ndarray, str, float]:
        maps = attention(read_by, np.array(ids))
        return words, maps.maps, tokens[maps.next_id], maps.next_prob

    earlier = [Sentence(*maps_of(weights), epochs=epochs) for epochs, weights in checkpoints]
    return Sentence(*maps_of(model)), earlier

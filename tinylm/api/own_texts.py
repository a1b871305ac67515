"""Your own texts in section `report`: prompts to continue and sentences whose maps are drawn."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import torch

from tinylm.api.language_model import LanguageModel
from tinylm.base import paths
from tinylm.base.config import InputError, read_section
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.attention_maps import MAX_TOKENS
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import Run, Sentence
from tinylm.vocab.tokenizer import open_tokenizer


def with_own_texts(
    run: Run, settings: ReportSettings, device: torch.device, folder: str | Path = "."
) -> Run:
    """The run with `own_texts` and `own_sentences`, from the model below `folder`.

    own_texts: a row per prompt of section `report`, continued by section `decode` for at most
    evaluate.new_tokens tokens. own_sentences: for each (Sentence, one of each checkpoint), where
    weights of epochs were kept. What cannot be made is named in the run's problems.
    """
    models = Path(folder) / paths.MODELS
    vocab = Path(folder) / paths.TOKENIZER
    results = dict(run.files)
    problems = dict(run.problems)
    try:
        decode = read_section(run.params, "decode", DecodeSettings)
        model, _ = load_model(models, device)
        check_vocabulary(models, vocab)
        repair_quotes = run.param("data", "repair_quotes") is not False
        lm = LanguageModel(model, open_tokenizer(vocab), decode, repair_quotes)
        if settings.prompts:
            most = read_section(run.params, "evaluate", EvaluateSettings).new_tokens
            results["own_texts"] = _continued(lm, list(settings.prompts), most)
        if settings.sentences:
            checkpoints = []
            for epochs, weights in load_checkpoints(models, device):
                checkpoints.append(
                    (epochs, LanguageModel(weights, lm.tokenizer, decode, repair_quotes))
                )
            sentences = []
            for text in settings.sentences:
                earlier = [_sentence(one, text, epochs) for epochs, one in checkpoints]
                sentences.append((_sentence(lm, text), earlier))
            results["own_sentences"] = sentences
    except InputError as error:
        problems["own_texts"] = f"own prompts and sentences: {error}".splitlines()[0]
    return dataclasses.replace(run, files=results, problems=problems)


def _continued(lm: LanguageModel, prompts: list[str], most: int) -> list[dict[str, Any]]:
    """A row for each prompt: its continuation and how it came about."""
    with warnings.catch_warnings(action="ignore"):  # the report names the unknown words
        texts = lm.generate(prompts, max_tokens=most, log_probs=True)
    rows = []
    for prompt, text in zip(prompts, texts, strict=True):
        row = {
            "prompt": prompt,
            "unknown": list(dict.fromkeys(lm.tokenizer.unknown_words(prompt))),
            "continuation": lm.tokenizer.decode(text.new_ids),
            "perplexity": perplexity(-(text.log_prob or 0.0), len(text.new_ids)),
            "finished": text.finished,
            "how": f"{lm.settings.in_words()}, at most {most} new tokens",
        }
        rows.append(row)
    return rows


def _sentence(lm: LanguageModel, text: str, epochs: float | None = None) -> Sentence:
    maps = lm.attention(text, MAX_TOKENS)
    return Sentence(maps.words, maps.weights, *maps.next, epochs=epochs)

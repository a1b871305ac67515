"""Your own texts in section `report`: prompts to continue and sentences whose maps are drawn."""

import dataclasses
import warnings
from typing import Any

from tinylm.api.language_model import LanguageModel, load
from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.evaluate.attention_maps import MAX_TOKENS
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import ReportData, Sentence


def with_own_texts(run: ReportData, settings: ReportSettings) -> ReportData:
    """The run with `own_texts` and `own_sentences`, from the model in the working folder.

    own_texts: a row per prompt of section `report`, continued by section `decode` for at most
    evaluate.new_tokens tokens. own_sentences: a Sentence for each. Raises InputError without the model
    or its vocabulary.
    """
    lm = load(paths.MODELS)
    files = dict(run.files)
    if settings.prompts:
        most = read_section(run.params, "evaluate", EvaluateSettings).new_tokens
        files["own_texts"] = _continued(lm, list(settings.prompts), most)
    if settings.sentences:
        files["own_sentences"] = [_sentence(lm, text) for text in settings.sentences]
    return dataclasses.replace(run, files=files)


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


def _sentence(lm: LanguageModel, text: str) -> Sentence:
    maps = lm.attention(text, MAX_TOKENS)
    return Sentence(maps.words, maps.weights, *maps.next)

"""Your own texts in section `report`: prompts to continue and sentences whose maps are drawn."""

import dataclasses
import warnings
from collections.abc import Sequence

from tinylm.api.language_model import LanguageModel, load
from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.evaluate.attention_maps import MAX_TOKENS
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.report.settings import ReportSettings
from tinylm.run.finished_run import FinishedRun, OwnText, Sentence
from tinylm.text.cleaning import clean_text


def with_own_texts(run: FinishedRun, settings: ReportSettings) -> FinishedRun:
    """Add the texts of section `report` to the run: continued prompts, and attention over sentences.

    The model in the working folder continues each prompt with the settings of section `decode`, by at
    most evaluate.new_tokens tokens. Raises InputError without the model or its vocabulary.
    """
    lm = load(paths.MODELS)
    most = read_section(run.params, "evaluate", EvaluateSettings).new_tokens
    return dataclasses.replace(
        run,
        own_texts=_continued(lm, settings.prompts, most),
        own_sentences=tuple(_sentence(lm, text) for text in settings.sentences),
    )


def _continued(lm: LanguageModel, prompts: Sequence[str], most: int) -> tuple[OwnText, ...]:
    """The continuation of each prompt, and how it was decoded."""
    if not prompts:
        return ()
    with warnings.catch_warnings(action="ignore"):  # the report names the unknown words
        texts = lm.generate(list(prompts), max_tokens=most, log_probs=True)
    continued = []
    for prompt, text in zip(prompts, texts, strict=True):
        own_text = OwnText(
            prompt=prompt,
            unknown=list(dict.fromkeys(lm.tokenizer.unknown_words(prompt))),
            continuation=lm.tokenizer.decode(text.new_ids),
            perplexity=perplexity(-(text.log_prob or 0.0), len(text.new_ids)),
            finished=text.finished,
            how=f"{lm.settings.in_words()}, at most {most} new tokens",
        )
        continued.append(own_text)
    return tuple(continued)


def _sentence(lm: LanguageModel, text: str) -> Sentence:
    """Attention over as many of the first tokens as fit in a picture."""
    maps = lm.attention(text, MAX_TOKENS)
    ids = lm.tokenizer.encode_prompt(clean_text(text), "the text")
    return Sentence(maps.words, maps.weights, *maps.next, left_out=len(ids) - len(maps.words))

"""A trained model as an object: text in, text, probabilities and attention out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from tinylm.api.results import Attention, NextWord, NextWords, Text
from tinylm.base.config import InputError, read_section
from tinylm.base.printable import visible, warn_caller
from tinylm.bench.settings import length_penalty
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import Sampling, generate
from tinylm.decoding.session import Session, decoding_mode, not_finite
from tinylm.decoding.settings import BeamSettings, CacheSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids, encode_prompts
from tinylm.evaluate.scoring import perplexity, token_log_probs
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.transformer import TinyLM
from tinylm.params.presets.write import params_or_preset
from tinylm.run.trained_model import folder_of_world, load_trained
from tinylm.storybook.check import world_of
from tinylm.text.cleaning import clean_text
from tinylm.vocab.tokenizer import Tokenizer

if TYPE_CHECKING:
    import pandas as pd

MAX_UNKNOWN_SHOWN = 5  # words in a warning


def _check_range(name: str, value: Any, low: int, high: float = math.inf) -> None:
    """Raise InputError unless the value is a whole number from `low` to `high`."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not low <= int(value) <= high:
        wanted = f">= {low}" if high == math.inf else f"from {low} to {high}"
        raise InputError(f"{name}: expected a whole number {wanted}, got {value!r}")


def _list_of_texts(texts: Iterable[str]) -> list[str]:
    """The texts. Raises InputError for a table or a dictionary, whose elements are its keys."""
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise InputError(
            f"expected texts, got a {type(texts).__name__}, whose elements are its keys; "
            "name the column, as in table['story'], or take values()"
        )
    return list(texts)


def _plain(value: Any) -> Any:
    """A NumPy number, such as an element of a column, as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.number) else value


def load(
    folder: str | Path = "models", vocab: str | Path | None = None, epoch: float | None = None
) -> LanguageModel:
    """The trained model in a folder: `models` of a run, or what `tinylm export` wrote.

    vocab: its tokenizer.json. By default the export's own, or data/vocab/tokenizer.json next to
    the folder.
    epoch: the checkpoint after this many epochs (`train.keep_epochs`); None: the saved weights.

    params.yaml in the working folder gives the defaults of decoding (sections `decode` and `cache`,
    `beam_bench.length_penalty`) and the device (`runtime.device`). Without that file, the preset
    storybook gives them.
    Raises InputError, which names the file.
    """
    params = params_or_preset()
    trained = load_trained(folder, params, vocab, epoch)
    model = LanguageModel(
        trained.model,
        trained.tokenizer,
        trained.decode,
        read_section(params, "cache", CacheSettings).slide,
        length_penalty(params),
    )
    corpus = trained.corpus
    data = params.get("data") or {}
    if corpus:
        model.source, model.world_digest = corpus.source, corpus.world
        if corpus.path and corpus.source == "world":
            model.world = folder_of_world(folder, corpus.path)
    elif data.get("source") == "world":  # such as an export of an older version
        model.source, model.world = "world", data.get("path")
    return model


class LanguageModel:
    """A trained model with its tokenizer.

    model: the torch module. tokenizer: text to ids and back. settings: the defaults of sampling,
    section `decode`. Keyword arguments called `changes` replace some of these settings for one
    call, as in `temperature=0.7, seed=3`. Every text is cleaned as the corpus was. Every method
    raises InputError if the model's logits are not finite, for example after a diverged training.

    Attributes that you can set: slide ("half" or "one", section `cache`), length_penalty (of beam
    search), source and world (for `truth`: where the stories come from, as in `data.source`, and
    the folder of the world that wrote them, if one did); step ("plain", "compiled" or "auto") and
    use_cache change the speed only.
    """

    def __init__(
        self,
        model: TinyLM,
        tokenizer: Tokenizer,
        settings: DecodeSettings,
        slide: str = "half",
        length_penalty: float = 0.0,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.settings = settings
        self.slide = slide
        self.length_penalty = length_penalty
        self.source = "storybook"  # where the stories come from, as in data.source
        self.world: str | Path | None = None
        self.world_digest: str | None = None  # of the world that wrote the stories, if it is known
        self.step = "auto"
        self.use_cache = True

    def __repr__(self) -> str:
        shape = self.model.settings
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return (
            f"LanguageModel: {shape.layers} layers of {shape.heads} heads, "
            f"width {self.model.width}, {len(self.tokenizer):,} {self.tokenizer.kind}, "
            f"context {shape.context}, {parameters:,} parameters"
        )

    @overload
    def generate(self, prompt: str = "", **options: Any) -> Text: ...

    @overload
    def generate(self, prompt: list[str], **options: Any) -> list[Text]: ...

    def generate(
        self,
        prompt: str | list[str] = "",
        *,
        max_tokens: int = 200,
        log_probs: bool = False,
        **changes: Any,
    ) -> Text | list[Text]:
        """Continue a text, or several side by side, by at most `max_tokens` tokens.

        "" starts a story; temperature=0 is greedy. Raises InputError for a value out of range.
        """
        given = [prompt] if isinstance(prompt, str) else _list_of_texts(prompt)
        prompts = self._ids(given)
        settings = self._settings(max_tokens, changes)
        continuations = generate(
            self._decoder(), prompts, settings, max_new_tokens=max_tokens, with_log_probs=log_probs
        )
        texts = []
        for text, ids, new in zip(given, prompts, continuations, strict=True):
            values = new.log_probs if log_probs else None
            texts.append(self._text(text, ids, new.ids, finished=new.finished, log_probs=values))
        return texts[0] if isinstance(prompt, str) else texts

    def stream(self, prompt: str = "", *, max_tokens: int = 200, **changes: Any) -> Iterator[str]:
        """The pieces of the text that `generate` would give, each as soon as it is made."""
        (ids,) = self._ids([prompt])
        settings = self._settings(max_tokens, changes)
        unknown = self.tokenizer.unknown_words(clean_text(prompt))
        return pieces(self.tokenizer, self._growing(ids, settings, max_tokens), unknown)

    def _growing(
        self, ids: list[int], settings: DecodeSettings, max_tokens: int
    ) -> Iterator[list[int]]:
        """The prompt's ids, then all ids after each new token."""
        yield ids
        with decoding_mode(self.model):
            sampling = Sampling(self._decoder(), [ids], settings, max_tokens)
        for _ in range(max_tokens):
            with decoding_mode(self.model):  # not around a yield, which runs the caller's code
                token = int(sampling.step()[0])
            ids = [*ids, token]
            yield ids
            if token == self.tokenizer.eos_id:
                return

    def beams(
        self,
        prompt: str = "",
        width: int = 5,
        *,
        n_best: int | None = None,
        max_tokens: int = 200,
        log_probs: bool = False,
    ) -> list[Text]:
        """The `n_best` likeliest continuations that beam search of this width finds, best first.

        n_best: all if not given. Raises InputError for a value out of range.
        """
        (ids,) = self._ids([prompt])
        _check_range("max_tokens", max_tokens, 0)
        n_best = width if n_best is None else n_best
        _check_range("width", width, 1, self.model.vocab_size)
        _check_range("n_best", n_best, 1, width)
        settings = BeamSettings(width=width, length_penalty=self.length_penalty, n_best=n_best)
        (hypotheses,) = beam_search(self._decoder(), [ids], settings, max_new_tokens=max_tokens)
        texts = []
        for best in hypotheses:
            finished = bool(best.ids) and best.ids[-1] == self.tokenizer.eos_id
            text = self._text(prompt, ids, best.ids, finished=finished, score=best.score)
            if log_probs:
                text.log_probs = self._log_probs([*ids, *best.ids], len(ids)).tolist()
            texts.append(text)
        return texts

    def next_words(self, prompt: str = "", count: int = 10) -> NextWords:
        """The `count` likeliest next tokens with probabilities, before temperature and filters."""
        _check_range("count", count, 1)
        ids = self._ids([prompt])
        with decoding_mode(self.model):
            logits = Session(self.model, ids, slide=self.slide).next_logits()[0]
            top = torch.softmax(logits.double(), dim=-1).topk(min(count, len(logits)))
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        return NextWords(NextWord(self.tokenizer.shown(token), value) for token, value in pairs)

    def truth(self, text: str, decode: bool = False) -> pd.DataFrame:
        """What the generator of the stories and this model expected at each word of a text.

        A row for each word, up to the first impossible one, and one for the word after the text; its
        columns are those of `tinylm.evaluate.truth.explain`. decode: adds the distribution that the
        decoding settings sample from. Raises InputError for a model that was not trained on the
        storybook or on `world`, and if the folder of this world is missing or has changed.
        """
        # Here and in `attention`, the only methods that need pandas: its import takes half a second.
        from tinylm.evaluate.truth import explain, problem_with

        source = self.source if self.world is None else "world"
        world = world_of(source, str(self.world or ""), digest=self.world_digest)
        if world is None:
            got = f"got one whose data.source is {source}"
            raise InputError(f"truth: expected a model trained on the storybook or a world, {got}")
        if problem := problem_with(self.tokenizer, world):
            raise InputError(f"truth: {problem}")
        self._warn_of_unknown(
            self._clean(text),
            "",
            "; the probabilities shown for them are those of <unk>, which stands for all such words",
        )
        words = self.tokenizer.split(self._clean(text))
        with decoding_mode(self.model):
            settings = self.settings if decode else None
            table = explain(self.model, self.tokenizer, words, settings, world)
        if table["kl"].isna().any():
            raise not_finite(self.model)
        if len(words) > len(table) == self.model.settings.context:
            warn_caller(f"the text has {len(words)} words; only the first {len(table)} are shown")
        return table

    def log_prob(self, text: str, given: str = "") -> float:
        """ln P of a text in nats, after `given` or as the start of a story.

        The two are joined as they are, so a continuation may begin with a space or a line break;
        white space at the end of `given` counts as the beginning of `text`. Words (tokenizer
        `words`) are separate anyway, with or without a space between the two.
        ln P(a + b) = ln P(a) + ln P(b, given=a). That the text ends is not counted.
        Raises InputError for a text without a token, or whose beginning changes the tokens of
        `given`.
        """
        self._warn_of_unknown(f"{self._clean(given)} {self._clean(text)}")
        before = self._opened(self._clean(given))
        if self.tokenizer.kind == "words":
            ids = [*before, *self.tokenizer.encode(self._clean(text))]
        else:
            ids = self._opened(self._clean(given + text))
        if ids[: len(before)] != before:
            raise InputError(
                f"{visible(text)!r} after {visible(given)!r}: the last token of the given text "
                "runs on into the text; split the two at the start of a word"
            )
        if not ids[len(before) :]:
            raise InputError(f"log_prob: expected a text of at least one token, got {text!r}")
        return float(self._log_probs(ids, len(before)).sum())

    def perplexity(self, texts: str | Iterable[str]) -> float:
        """exp of the mean loss per token of whole stories, each from its start.

        <eos> is counted where there is one. It is the perplexity of stage evaluate where a row is a
        story and fits the context. Raises InputError without a token to predict.
        """
        given = [texts] if isinstance(texts, str) else _list_of_texts(texts)
        stories = list(map(self._clean, given))
        nats = 0.0
        tokens = 0
        for text in stories:
            ids = self.tokenizer.encode_story(text)
            log_probs = self._log_probs(ids, 1)
            nats -= math.fsum(log_probs)
            tokens += len(log_probs)
        self._warn_of_unknown("\n".join(stories))
        if not tokens:
            raise InputError("perplexity needs at least one text with a token to predict")
        return perplexity(nats, tokens)

    def attention(self, text: str, max_tokens: int | None = None) -> Attention:
        """What each head attends to in the first `max_tokens` tokens, at most the context."""
        from tinylm.evaluate.attention_maps import attention

        self._warn_of_unknown(self._clean(text))
        ids = self.tokenizer.encode_prompt(self._clean(text), "the text")
        room = self.model.settings.context
        if max_tokens is not None:
            _check_range("max_tokens", max_tokens, 1)
            room = min(max_tokens, room)
        elif len(ids) > room:
            warn_caller(f"the text has {len(ids)} tokens; only the first {room} are shown")
        with decoding_mode(self.model):
            maps = attention(self.model, ids[:room])
        if math.isnan(maps.next_prob):
            raise not_finite(self.model)
        words = list(map(self.tokenizer.shown, ids[:room]))
        after = NextWord(self.tokenizer.shown(maps.next_id), maps.next_prob)
        return Attention(words, maps.maps, after)

    def _settings(self, max_tokens: int, changes: dict[str, Any]) -> DecodeSettings:
        """The defaults of decoding with some of them replaced. Raises InputError."""
        _check_range("max_tokens", max_tokens, 0)
        values = vars(self.settings) | {name: _plain(value) for name, value in changes.items()}
        return read_section({"decode": values}, "decode", DecodeSettings, "options")

    def _decoder(self) -> Decoder:
        """A decoder with the current values of the attributes."""
        return Decoder(
            model=self.model,
            eos_id=self.tokenizer.eos_id,
            banned=banned_ids(self.tokenizer),
            slide=self.slide,
            use_cache=self.use_cache,
            step=decoding_step(self.model, self.step),
        )

    def _ids(self, prompts: list[str]) -> list[list[int]]:
        """Ids of each prompt; warns about words outside the vocabulary."""
        prompts = list(map(self._clean, prompts))
        for number, text in enumerate(prompts, start=1):
            self._warn_of_unknown(text, f"prompt {number}: ")
        return encode_prompts(self.tokenizer, prompts, self.model.settings.context, self.slide)

    def _clean(self, text: str) -> str:
        if not isinstance(text, str):
            raise InputError(f"expected a text, got {text!r:.80}")
        return clean_text(text)

    def _warn_of_unknown(self, text: str, name: str = "", more: str = "") -> None:
        unknown = list(dict.fromkeys(self.tokenizer.unknown_words(text)))
        if unknown:
            words = ", ".join(repr(visible(word)) for word in unknown[:MAX_UNKNOWN_SHOWN])
            if len(unknown) > MAX_UNKNOWN_SHOWN:
                words += f" and {len(unknown) - MAX_UNKNOWN_SHOWN} more"
            message = f"{name}words not in the vocabulary are read as <unk>: {words}{more}"
            warn_caller(message)

    def _opened(self, text: str) -> list[int]:
        """Ids of a story that may go on: without the token that ends it, if there is one."""
        ids = self.tokenizer.encode_story(text)
        return ids if self.tokenizer.eos_id is None else ids[:-1]

    def _log_probs(self, ids: Sequence[int], first: int) -> np.ndarray:
        """ln P of ids[first:], each given all before it in the context."""
        with decoding_mode(self.model):
            log_probs = token_log_probs(self.model, ids, max(first, 1), self.slide)
        if np.isnan(log_probs).any():
            raise not_finite(self.model)
        return log_probs

    def _text(self, prompt: str, ids: list[int], new: list[int], **values: Any) -> Text:
        """The text of a prompt, its ids and new ones; values: its other attributes."""
        unknown = self.tokenizer.unknown_words(clean_text(prompt))
        text = Text(self.tokenizer.decode([*ids, *new], unknown))
        vars(text).update(prompt_ids=ids, new_ids=new, **values)
        return text


def pieces(
    tokenizer: Tokenizer, texts: Iterable[list[int]], unknown: Sequence[str] = ()
) -> Iterator[str]:
    """Yield what each text adds to the one before it. For `unknown` see `Tokenizer.decode`.

    Bytes that do not make a character yet wait for the next text, or for the end.
    """
    length = 0  # characters of all pieces so far
    text = ""
    for ids in texts:
        text = tokenizer.decode(ids, unknown)
        piece = text.rstrip("\ufffd")[length:]
        length += len(piece)
        if piece:
            yield piece
    if len(text) > length:
        yield text[length:]

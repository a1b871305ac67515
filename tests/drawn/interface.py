"""Properties of `tinylm.load`: every method sees the same model, also one that the user has edited."""

import copy
import functools
import math
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tinylm
from tests.drawn.drawing import DrawnRun
from tests.drawn.models import plain_settings, weights_of, window
from tests.drawn.properties import holds
from tests.drawn.rounding import BF16, F16, FP32, Exact, ShakenModel, exactly
from tests.drawn.running import in_folder
from tinylm.api.language_model import LanguageModel
from tinylm.api.results import Text
from tinylm.base.config import InputError
from tinylm.text.cleaning import clean_text

NEW = 6  # tokens of a text
LEAST = -30.0  # nats of a probability that is compared
LONGEST_S = 120  # of a child process
UNITS = {torch.float64: FP32, torch.float32: FP32, torch.bfloat16: BF16, torch.float16: F16}
FACTOR = 0.5  # on what an edited module gives


class EditedPlainModel(ShakenModel):
    """The plain model, in which what one module of tinylm's model gives is multiplied by a factor.

    edited: the module's name, as in `named_modules`; None for no module.
    """

    edited: str | None = None

    def scaled(self, y: Tensor, name: str) -> Tensor:
        return y * FACTOR if name == self.edited else y

    def linear(self, x: Tensor, name: str, has_bias: bool) -> Tensor:
        return self.scaled(super().linear(x, name, has_bias), name)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return self.scaled(super().norm(x, name), name)

    def attend(self, x: Tensor, name: str) -> Tensor:
        return self.scaled(super().attend(x, name), name)

    def feed(self, x: Tensor, name: str) -> Tensor:
        return self.scaled(super().feed(x, name), name)

    def block(self, x: Tensor, name: str) -> Tensor:
        return self.scaled(super().block(x, name), name)

    def hidden(self, ids: Tensor) -> Tensor:
        x = super().hidden(ids)
        return x if self.settings["final_norm"] else self.scaled(x, "final_norm")

    def __call__(self, ids: Tensor) -> Tensor:
        return self.scaled(super().__call__(ids), "")


class Oracle:
    """The next token's logits and log-probabilities by the plain model, in the windows of decoding."""

    def __init__(self, lm: LanguageModel, edited: str | None = None) -> None:
        self.settings = plain_settings(lm.model)
        self.weights = {name: tensor.double() for name, tensor in weights_of(lm.model).items()}
        self.unit = UNITS[lm.model.embedding.dtype]
        self.slide = lm.slide
        self.edited = edited
        self.known: dict[tuple[int, ...], Exact] = {}

    def _compute(self, ids: tuple[int, ...]) -> None:
        """The logits after each of the ids, in one pass: later tokens change nothing for earlier ones."""
        inputs = torch.tensor([ids], device="cpu")
        dtype = torch.get_default_dtype()

        def make() -> EditedPlainModel:
            plain = EditedPlainModel(self.weights, self.settings)
            plain.edited = self.edited
            return plain

        torch.set_default_dtype(torch.float32)
        try:
            with torch.device("cpu"):
                rows = exactly(lambda plain: list(plain(inputs)[0]), make, self.unit)
        finally:
            torch.set_default_dtype(dtype)
        for end, exact in enumerate(rows, start=1):
            self.known.setdefault(ids[:end], exact)

    def logits(self, ids: list[int]) -> Exact:
        """(V,) after all ids."""
        shown = tuple(window(ids, self.settings["context"], self.slide))
        if shown not in self.known:
            self._compute(shown)
        return self.known[shown]

    def log_probs(self, ids: list[int], first: int) -> tuple[list[float], float]:
        """(ln P of each of ids[first:], how far each may be off)."""
        values, bound = [], 0.0
        for end in reversed(range(first, len(ids))):  # the longest window holds most of the others
            exact = self.logits(ids[:end])
            values.append(float(exact.value.log_softmax(-1)[ids[end]]))
            bound = max(bound, 2 * exact.bound)
        return values[::-1], bound


def near(got: Any, expected: Any, bound: float, what: str) -> None:
    """AssertionError unless all numbers are within the bound, or 1e-6 for float32's softmax."""
    difference = np.abs(np.asarray(got, float) - np.asarray(expected, float))
    slack = bound + 1e-6 * (1 + np.abs(expected))
    assert (difference <= slack).all(), (
        f"{what}: expected {expected}, got {got}, allowed {bound:.2g}"
    )


MOST_NATS = 700.0  # a perplexity of more is infinite


def logs(probabilities: Any) -> Any:
    """Natural logarithms, LEAST where a probability has no digit left."""
    return np.maximum(np.log(np.maximum(probabilities, 1e-300)), LEAST)


class Methods:
    """Calls of every method of a model, each compared with the oracle."""

    def __init__(self, lm: LanguageModel, oracle: Oracle, prompts: list[str], seed: int) -> None:
        self.lm = lm
        self.oracle = oracle
        self.prompts = prompts
        self.seed = seed
        self.banned = lm.tokenizer.specials - {lm.tokenizer.eos_id}

    def ids(self, text: str) -> list[int]:
        return self.lm.tokenizer.encode_prompt(clean_text(text), "prompt")

    def calls(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "next_words", self.next_words
        yield "log_prob", self.log_prob
        yield "perplexity", self.perplexity
        yield "attention", self.attention
        for is_greedy in (True, False):
            for count in (1, len(self.prompts)):
                name = f"generate, {'greedy' if is_greedy else 'sampled'}, {count} prompts"
                yield name, functools.partial(self.generate, is_greedy, self.prompts[:count])
        yield "beams", self.beams
        yield "stream", self.stream

    def check(self, where: str, may_refuse: bool) -> None:
        """Every method; a refusal is one InputError that does not blame the training."""
        for name, call in self.calls():
            refusal = ""
            try:
                call()
            except InputError as error:
                refusal = str(error)
            except AssertionError as error:
                raise AssertionError(f"{where}, {name}: {error}") from None
            assert not refusal or may_refuse, f"{where}, {name}: refused: {refusal}"
            assert "diverged" not in refusal, f"{where}, {name}: {refusal}"

    def next_words(self) -> None:
        for prompt in self.prompts:
            exact = self.oracle.logits(self.ids(prompt))
            expected = exact.value.log_softmax(-1).sort(descending=True).values[:5]
            found = [word.probability for word in self.lm.next_words(prompt, 5)]
            near(
                logs(found),
                expected.clamp(min=LEAST).tolist(),
                2 * exact.bound,
                f"after {prompt!r}",
            )

    def attention(self) -> None:
        for prompt in self.prompts:
            ids = self.ids(prompt)[: self.oracle.settings["context"]]
            exact = self.oracle.logits(ids)
            found = self.lm.attention(prompt)
            expected = float(exact.value.log_softmax(-1).max())
            near(np.log(found.next.probability), expected, 2 * exact.bound, f"after {prompt!r}")
            near(found.weights.sum(-1), 1.0, 8 * self.oracle.unit, "the sum of a row of weights")

    def log_prob(self) -> None:
        for prompt in self.prompts:
            ids = self.ids(prompt)
            if len(ids) > 1:
                expected, bound = self.oracle.log_probs(ids, 1)
                near(self.lm.log_prob(prompt), sum(expected), len(ids) * bound, f"{prompt!r}")

    def perplexity(self) -> None:
        nats, most = [], 0.0
        for prompt in self.prompts:
            ids = self.lm.tokenizer.encode_story(clean_text(prompt))
            expected, bound = self.oracle.log_probs(ids, 1)
            nats += [-value for value in expected]
            most = max(most, bound)
        if nats:
            found = min(np.log(self.lm.perplexity(np.array(self.prompts))), MOST_NATS)
            near(found, min(np.mean(nats), MOST_NATS), most, "ln of it")

    def is_told(self, text: Text) -> None:
        """The text says whether it ended by itself, and has no more tokens than allowed."""
        assert len(text.new_ids) <= NEW, f"expected at most {NEW} tokens, got {text.new_ids}"
        ended = text.new_ids[-1:] == [self.lm.tokenizer.eos_id]
        assert text.finished == ended, f"finished: expected {ended} for {text.new_ids}"

    def generate(self, is_greedy: bool, prompts: list[str]) -> None:
        options = {"repetition_penalty": 1.0, "max_tokens": NEW, "seed": self.seed}
        if is_greedy:
            options["temperature"] = 0
        for text in self.lm.generate(prompts, log_probs=True, **options):
            self.is_told(text)
            ids = [*text.prompt_ids, *text.new_ids]
            expected, bound = self.oracle.log_probs(ids, len(text.prompt_ids))
            near(text.log_probs, expected, bound, f"log_probs of {ids}")
            for end in range(len(text.prompt_ids), len(ids) if is_greedy else 0):
                logits = self.oracle.logits(ids[:end]).value.numpy()
                allowed = [index for index in range(len(logits)) if index not in self.banned]
                best = float(logits[allowed].max())
                assert logits[ids[end]] >= best - bound - 1e-6, (
                    f"{ids[end]} is not likeliest after {ids[:end]}"
                )

    def beams(self) -> None:
        for text in self.lm.beams(
            self.prompts[0], min(3, self.lm.model.vocab_size), max_tokens=NEW
        ):
            self.is_told(text)
            ids = [*text.prompt_ids, *text.new_ids]
            expected, bound = self.oracle.log_probs(ids, len(text.prompt_ids))
            length = max(len(text.new_ids), 1) ** self.lm.length_penalty
            near(
                text.score,
                sum(expected) / length,
                len(expected) * bound / length,
                f"score of {ids}",
            )

    def stream(self) -> None:
        options = {"repetition_penalty": 1.0, "max_tokens": NEW, "temperature": 0}
        expected = self.lm.generate(self.prompts[0], **options)
        assert "".join(self.lm.stream(self.prompts[0], **options)) == expected


def is_encoded(lm: LanguageModel, text: str) -> bool:
    """Whether a text has tokens, and only characters of the vocabulary. log_prob refuses others."""
    try:
        lm.tokenizer.encode_story(text)
    except InputError:
        return False
    return bool(lm.tokenizer.encode(text))


def prompts_of(lm: LanguageModel, drawn: DrawnRun, rng: np.random.Generator) -> list[str]:
    """Up to three beginnings of stories, some longer than the context."""
    texts = [text for text in drawn.files.texts() if is_encoded(lm, clean_text(text))]
    prompts = []
    for number in rng.permutation(len(texts))[:3]:
        words = clean_text(texts[number]).split()
        start = " ".join(words[: int(rng.choice([2, len(words)]))])
        if lm.tokenizer.encode(start):
            prompts.append(start)
    return prompts


def check_methods(
    lm: LanguageModel,
    oracle: Oracle,
    prompts: list[str],
    drawn: DrawnRun,
    where: str,
    may_refuse: bool = True,
) -> None:
    """All methods, by one of the ways to decode."""
    chooser = random.Random(f"{drawn.number} {where}")
    lm.step = chooser.choice(("auto", "auto", "plain"))
    lm.use_cache = chooser.choice((True, True, False))
    methods = Methods(lm, oracle, prompts, drawn.number)
    methods.check(f"{where}, step {lm.step}, use_cache {lm.use_cache}", may_refuse)


def loaded(drawn: DrawnRun) -> tuple[LanguageModel, list[str], np.random.Generator]:
    """The trained model of the current folder, prompts, and random numbers."""
    lm = tinylm.load("models")
    rng = np.random.default_rng(drawn.number)
    return lm, prompts_of(lm, drawn, rng), rng


@holds("trained")
def every_method_sees_the_trained_model(drawn: DrawnRun, folder: Path) -> None:
    """Texts, beams, probabilities and attention have the plain model's log-probabilities."""
    with in_folder(folder):
        lm, prompts, _ = loaded(drawn)
        params = drawn.params()
        expected = (params["cache"]["slide"], params["beam_bench"]["length_penalty"])
        assert (lm.slide, lm.length_penalty) == expected, "params.yaml has another slide or penalty"
        if prompts:
            check_methods(lm, Oracle(lm), prompts, drawn, "as trained", may_refuse=False)


class Wrapper(nn.Module):
    """A module in place of a linear layer, as LoRA has it: with the layer's weights, and its own result."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base

    weight = property(lambda self: self.base.weight)
    bias = property(lambda self: self.base.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) * FACTOR


def edit(model: nn.Module, name: str, kind: str) -> None:
    """Multiply what a module gives, in a way that PyTorch offers."""
    module = model.get_submodule(name)
    if kind == "hook":
        module.register_forward_hook(lambda module, inputs, output: output * FACTOR)
    elif kind == "forward":
        forward = module.forward
        module.forward = lambda *inputs, **options: forward(*inputs, **options) * FACTOR
    else:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, Wrapper(module))


def check_edits(drawn: DrawnRun, folder: Path, kind: str) -> None:
    """Two of the modules, each edited in this way."""
    with in_folder(folder):
        lm, prompts, rng = loaded(drawn)
        if not prompts:
            return
        names = []
        for name, module in lm.model.named_modules():
            is_called = not isinstance(module, nn.ModuleList)
            if isinstance(module, nn.Linear) or (kind != "wrapper" and is_called):
                names.append(name)
        for name in rng.permutation(names)[:2]:
            edited = copy.copy(lm)
            edited.model = copy.deepcopy(lm.model)
            edit(edited.model, name, kind)
            check_methods(
                edited, Oracle(lm, name), prompts, drawn, f"{kind} of {name or 'the model'}"
            )


@holds("trained")
def every_method_calls_a_forward_hook(drawn: DrawnRun, folder: Path) -> None:
    """Of any module, or refuses the model."""
    check_edits(drawn, folder, "hook")


@holds("trained")
def every_method_calls_a_replaced_forward(drawn: DrawnRun, folder: Path) -> None:
    """Of any module, or refuses the model."""
    check_edits(drawn, folder, "forward")


@holds("trained")
def every_method_calls_a_wrapped_layer(drawn: DrawnRun, folder: Path) -> None:
    """A linear layer inside another module, as LoRA has it."""
    check_edits(drawn, folder, "wrapper")


@holds("trained")
def every_method_sees_a_model_in_another_precision(drawn: DrawnRun, folder: Path) -> None:
    """Or refuses it."""
    with in_folder(folder):
        lm, prompts, rng = loaded(drawn)
        if prompts:
            dtype = list(UNITS)[int(rng.integers(len(UNITS)))]
            lm.model.to(dtype)
            oracle = Oracle(lm)
            ids = lm.tokenizer.encode_prompt(clean_text(prompts[0]), "prompt")
            if math.isinf(oracle.logits(ids).bound):
                return  # beyond the range of dtype; every method refuses logits that are not finite
            check_methods(lm, oracle, prompts, drawn, f"model.to({dtype})")


# What other libraries set for the whole process, after the model is loaded.
STATES: dict[str, Callable[[], Any]] = {
    "float64 as default": lambda: torch.set_default_dtype(torch.float64),
    "bfloat16 as default": lambda: torch.set_default_dtype(torch.bfloat16),
    "float16 as default": lambda: torch.set_default_dtype(torch.float16),
    "device meta as default": lambda: torch.set_default_device("meta"),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
}


@holds("trained")
def every_method_is_the_same_in_any_state_of_torch(drawn: DrawnRun, folder: Path) -> None:
    """Or refuses it; in a process of its own, which native code could end."""
    with in_folder(folder):
        lm, prompts, rng = loaded(drawn)
        if not prompts:
            return
        oracle = Oracle(lm)
        state = list(STATES)[int(rng.integers(len(STATES)))]
        for _, call in Methods(lm, oracle, prompts, drawn.number).calls():
            call()  # the oracle knows most of what it will be asked

        def work() -> None:
            STATES[state]()
            check_methods(lm, oracle, prompts, drawn, state)

        in_child(work, state)


def in_child(work: Callable[[], None], what: str) -> None:
    """Do the work in a fork of this process. AssertionError if it fails there, or if the process dies."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LONGEST_S)
        message = ""
        try:
            work()
        except BaseException:
            message = traceback.format_exc()[-3000:]
        os.write(send, message.encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        message = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    assert not os.WIFSIGNALED(status), f"{what}: the process died of signal {os.WTERMSIG(status)}"
    assert not message, f"{what}: {message}"

"""Properties of models with random weights: kernels, recomputed blocks and decoding against plain code in float64."""

import copy
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.drawn.drawing import DrawnRun
from tests.drawn.plain_model import PlainModel, Weights
from tests.drawn.properties import ALONE, holds
from tests.drawn.rounding import FP32, UNITS, Exact, ShakenModel, exactly
from tinylm.base.config import read_section
from tinylm.decoding.session import Session
from tinylm.kernels.decoding.graphed import GraphedStep
from tinylm.kernels.decoding.step import decoding_step
from tinylm.kernels.train.ops import ManualGradOps, training_ops
from tinylm.model.ops import REFERENCE, Ops
from tinylm.model.recompute import Checkpointing
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.row_threads import RowThreads
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import accumulate_gradients
from tinylm.vocab.batches import Batch
from tinylm.vocab.rows import UNSCORED


def settings_of(drawn: DrawnRun, **changes: Any) -> ModelSettings:
    """Section model, with some keys changed."""
    return dataclasses.replace(read_section(drawn.params(), "model", ModelSettings), **changes)


def random_model(
    settings: ModelSettings, vocab: int, width: int, number: int, recompute: str = "none"
) -> TinyLM:
    """A model in evaluation mode whose weights are all random, as large as those of a trained one."""
    generator = torch.Generator().manual_seed(number)
    torch.manual_seed(number)
    embedding = torch.randn(vocab, width, generator=generator)
    model = TinyLM(settings, embedding, REFERENCE, Checkpointing(recompute))
    spread = (0.5, 1.0, 2.0, 4.0)[number % 4]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                start = 1.0 if name.endswith("gain") else 0.0
                parameter.copy_(start + 0.3 * torch.randn(parameter.shape, generator=generator))
            elif name.startswith("blocks."):
                parameter.mul_(spread)
    return model.eval()


def model_of(drawn: DrawnRun, **changes: Any) -> TinyLM:
    """A random model of the run's shape and a small vocabulary.

    A layer norm over one column is constant: only rounding decides its gradient, so there are two.
    """
    width = max(2, drawn.params()["embedding"]["width"])
    vocab = 5 + drawn.number % 67
    return random_model(settings_of(drawn, **changes), vocab, width, drawn.number)


def with_ops(model: TinyLM, ops: Ops) -> TinyLM:
    """A copy of the model that computes with other operations."""
    changed = copy.deepcopy(model)
    for module in changed.modules():
        if hasattr(module, "ops"):
            module.ops = ops
    return changed


def weights_of(model: TinyLM) -> Weights:
    """By the names of a file in models/."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def plain_model(model: TinyLM, is_fused: bool = False) -> ShakenModel:
    """The same model in plain code. is_fused: whether it is compared with torch's attention."""
    return ShakenModel(weights_of(model), plain_settings(model), is_fused=is_fused)


def plain_settings(model: TinyLM) -> dict[str, Any]:
    return dataclasses.asdict(model.settings)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of inputs and targets of unequal length, some targets not scored."""

    inputs: list[Tensor]
    targets: list[Tensor]

    @classmethod
    def drawn(cls, model: TinyLM, rng: np.random.Generator) -> "Rows":
        inputs, targets = [], []
        for _ in range(int(rng.integers(1, 7))):
            length = int(rng.integers(1, model.settings.context + 1))
            inputs.append(torch.from_numpy(rng.integers(model.vocab_size, size=length)))
            scored = rng.random(length) < rng.choice([0.3, 1.0])
            scored[rng.integers(length)] = True
            chosen = rng.integers(model.vocab_size, size=length)
            targets.append(torch.from_numpy(np.where(scored, chosen, UNSCORED)))
        return cls(inputs, targets)

    def batches(self, rng: np.random.Generator) -> list[Batch]:
        """The rows in one to three mini-batches, padded on the right."""
        parts = np.array_split(np.arange(len(self.inputs)), int(rng.integers(1, 4)))
        result = []
        for part in parts:
            if not len(part):
                continue
            pad = torch.nn.utils.rnn.pad_sequence
            inputs = pad([self.inputs[row] for row in part], True, padding_value=0)
            targets = pad([self.targets[row] for row in part], True, padding_value=UNSCORED)
            result.append(Batch(inputs, targets, int((targets >= 0).sum())))
        return result

    def tokens(self) -> int:
        return sum(int((targets >= 0).sum()) for targets in self.targets)

    def plain_losses(self, plain: PlainModel) -> list[Tensor]:
        """Nats of each row alone, in plain code.  (T,) each, 0 where nothing is scored"""
        losses = []
        for inputs, targets in zip(self.inputs, self.targets, strict=True):
            log_probs = plain(inputs[None])[0].log_softmax(-1)
            chosen = log_probs[torch.arange(len(targets)), targets.clamp(min=0)]
            losses.append(-chosen * (targets >= 0))
        return losses


def plain_gradients(rows: Rows, plain: PlainModel, trained: list[str]) -> list[Tensor]:
    """[mean nats per scored target, its gradient for each trained parameter], in plain code."""
    for name in trained:
        plain.weights[name].requires_grad_()
    loss = torch.cat(rows.plain_losses(plain)).sum() / rows.tokens()
    return [loss, *torch.autograd.grad(loss, [plain.weights[name] for name in trained])]


@holds(ALONE, settings_alone=True)
def an_update_has_the_gradient_of_its_rows(drawn: DrawnRun, folder: Path) -> None:
    """Loss and gradients do not depend on kernels, batches, threads or recomputed blocks.

    They are those of each row alone in plain code, up to rounding.
    """
    train = read_section(drawn.params(), "train", TrainSettings)
    model = model_of(drawn, dropout=0.0).train()
    rng = np.random.default_rng(drawn.number)
    rows = Rows.drawn(model, rng)
    model.run_blocks = Checkpointing(train.recompute)
    trained = [name for name, one in model.named_parameters() if one.requires_grad]
    is_fused = train.attention == "torch"
    make = functools.partial(plain_model, model, is_fused)
    for precision, unit in UNITS.items():
        exact = exactly(lambda plain: plain_gradients(rows, plain, trained), make, unit)
        for ops in (
            training_ops(torch.device("cpu"), is_fused),
            ManualGradOps(is_fused),
            REFERENCE,
        ):
            threads = int(rng.integers(1, 3))
            found = update_gradients(with_ops(model, ops), rows.batches(rng), precision, threads)
            for name, result, wanted in zip(["loss", *trained], found, exact, strict=True):
                wanted.check(
                    result, f"{type(ops).__name__}, {precision}, {threads} threads, {name}"
                )


def update_gradients(
    model: TinyLM, batches: list[Batch], precision: str, threads: int
) -> list[Tensor]:
    """[mean nats per token, gradients], as one update of training computes them."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    total = sum(batch.tokens for batch in batches)
    try:
        nats = RowThreads(model, max(len(batch.inputs) for batch in batches)).run(
            lambda one, part: accumulate_gradients(one, part, precision, total), batches
        )
    finally:
        torch.set_num_threads(before)
    gradients = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            gradient = parameter.grad
            gradient = torch.zeros_like(parameter) if gradient is None else gradient.to_dense()
            gradients.append(gradient)
    return [nats / total, *gradients]


@holds(ALONE, settings_alone=True)
def recomputed_blocks_give_equal_bits(drawn: DrawnRun, folder: Path) -> None:
    """Gradients and the random numbers that follow, with dropout as drawn, in each precision."""
    train = read_section(drawn.params(), "train", TrainSettings)
    model = model_of(drawn).train()
    rows = Rows.drawn(model, np.random.default_rng(drawn.number))
    is_fused = train.attention == "torch"
    for precision in UNITS:
        for ops in (training_ops(torch.device("cpu"), is_fused), ManualGradOps(is_fused)):
            found = []
            for mode in ("none", "blocks"):
                one = with_ops(model, ops)
                one.run_blocks = Checkpointing(mode)
                torch.manual_seed(drawn.number)
                batches = rows.batches(np.random.default_rng(drawn.number))
                found.append([*update_gradients(one, batches, precision, 1), torch.rand(3)])
            for kept, recomputed in zip(*found, strict=True):
                # Where all of a token is dropped, a norm with a tiny epsilon may give NaN, twice.
                torch.testing.assert_close(recomputed, kept, rtol=0, atol=0, equal_nan=True)


@holds(ALONE, settings_alone=True)
def a_rows_loss_does_not_depend_on_its_batch(drawn: DrawnRun, folder: Path) -> None:
    """The loss of each target as validation and evaluation compute it."""
    model = model_of(drawn)
    rng = np.random.default_rng(drawn.number)
    rows = Rows.drawn(model, rng)
    make = functools.partial(plain_model, model)
    for precision, unit in UNITS.items():
        exact = exactly(rows.plain_losses, make, unit)
        for ops in (training_ops(torch.device("cpu")), ManualGradOps(), REFERENCE):
            place = 0
            for batch in rows.batches(rng):
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                    losses = with_ops(model, ops).token_loss(batch.inputs, batch.targets)
                for loss in losses:
                    length = len(rows.targets[place])
                    exact[place].check(
                        loss[:length], f"{type(ops).__name__}, {precision}, row {place}"
                    )
                    assert not loss[length:].any(), f"row {place}: padding is scored"
                    place += 1


def window(ids: list[int], context: int, slide: str) -> list[int]:
    """The tokens from which the next one is predicted: half of a full window is dropped, or one token."""
    step = max(1, context // 2) if slide == "half" else 1
    start = 0
    while len(ids) - start > context:
        start += step
    return ids[start:]


def ways_to_decode(model: TinyLM) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step with and without the cache; auto is the one in C++ where it compiles."""
    for use_cache in (True, False):
        cached = "cached" if use_cache else "not cached"
        yield f"plain, {cached}", {"use_cache": use_cache, "step": decoding_step(model, "plain")}
        yield f"auto, {cached}", {"use_cache": use_cache, "step": decoding_step(model, "auto")}
        yield f"graphed, {cached}", {"use_cache": use_cache, "step": GraphedStep(model)}


@holds(ALONE, settings_alone=True)
def every_way_to_decode_has_the_logits_of_the_plain_model(drawn: DrawnRun, folder: Path) -> None:
    """Rows of any length grow, leave and are doubled as beams are, past the context, in both slides."""
    model = model_of(drawn)
    context = model.settings.context

    @functools.cache
    def exact_logits(ids: tuple[int, ...]) -> Exact:
        inputs = torch.tensor([ids])
        make = functools.partial(plain_model, model)
        (exact,) = exactly(lambda plain: [plain(inputs)[0, -1]], make, FP32)
        return exact

    for slide in ("half", "one"):
        for name, options in ways_to_decode(model):
            rng = np.random.default_rng(drawn.number)
            count = int(rng.integers(1, 5))
            lengths = rng.integers(1, 2 * context, size=count)
            rows = [rng.integers(model.vocab_size, size=length).tolist() for length in lengths]
            session = Session(model, rows, slide=slide, new_tokens=context + 3, **options)
            checked = set(rng.integers(context + 3, size=4).tolist())
            for number in range(context + 3):
                logits = session.next_logits()
                if number in checked:
                    for row, ids in enumerate(rows):
                        exact = exact_logits(tuple(window(ids, context, slide)))
                        exact.check(logits[row], f"{name}, {slide}, {len(ids)} tokens, row {row}")
                if rng.random() < 0.2:
                    chosen = rng.integers(len(rows), size=int(rng.integers(1, 5)))
                    session.select(chosen)
                    rows = [list(rows[row]) for row in chosen]
                new = rng.integers(model.vocab_size, size=len(rows))
                session.append(new)
                for ids, token in zip(rows, new.tolist(), strict=True):
                    ids.append(token)

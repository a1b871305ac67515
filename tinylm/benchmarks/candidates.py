"""Candidates of the recipe: each a change of the reference model or of its trainer, tried by `tried`."""

# mypy: disable-error-code="method-assign,union-attr,operator,assignment,attr-defined,arg-type"

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.model.ops import turned
from tinylm.model.transformer import Block, TinyLM
from tinylm.text.tokens.batches import Batch
from tinylm.training import trainer as training
from tinylm.training.muon import Muon, orthogonalise
from tinylm.training.trainer import Trainer

Piece = tuple[Tensor, Tensor, Tensor]


@dataclasses.dataclass
class Candidate:
    """form, train: changes of sections model and train; build changes the model, learner the trainer; batches(place,
    progress) gives (mini-batches of the next update, how many were used); average: the tail or EMA that is scored."""

    form: dict[str, Any] = dataclasses.field(default_factory=dict)
    train: dict[str, Any] = dataclasses.field(default_factory=dict)
    build: Callable[[TinyLM], None] = lambda model: None
    learner: Callable[[Trainer], None] = lambda trainer: None
    batches: Callable[[Trainer, int, float], list[Batch]] = lambda trainer, place, _: [trainer.batches.batch(place)]
    average: Callable[[float, int], float | None] = lambda progress, count: None


def attention(model: TinyLM, change: Callable[[int, Tensor], Tensor], gates: Sequence[Tensor] = ()) -> None:
    """Every attention sees change(layer, qkv) (B, T, 3, H, Dh), after the rotation; gates (H, 12) on its heads."""

    def patched(layer: int, part: Any) -> Callable[..., Tensor]:
        def forward(x: Tensor, mask: Tensor, store: object = None, maps: object = None) -> Tensor:
            qkv = change(layer, turned(part.project(x), part.turns[None, : x.shape[1]]))
            mixed = part.ops.attention(qkv, part.scale, mask, 0.0)
            if gates:
                gate = 2 * torch.sigmoid(F.linear(x[..., :12].to(gates[layer].dtype), gates[layer]))
                mixed = (mixed.unflatten(-1, (part.heads, -1)) * gate[..., None].to(mixed.dtype)).flatten(2)
            return part.join(mixed)

        return forward

    for layer, block in enumerate(model.blocks):
        block.attention.forward = patched(layer, block.attention)


def remember_ids(model: TinyLM) -> None:
    """model.ids: of the batch that passes."""
    plain = model.vectors

    def vectors(ids: Tensor) -> Tensor:
        model.ids = ids
        return plain(ids)

    model.vectors = vectors


def qk_norm(model: TinyLM) -> None:
    def change(_: int, qkv: Tensor) -> Tensor:
        both = F.rms_norm(qkv[:, :, :2].float(), qkv.shape[-1:]).to(qkv.dtype)
        return torch.cat([both, qkv[:, :, 2:]], 2)

    attention(model, change)


def value_embeddings(model: TinyLM) -> None:
    """Added to the values of the first and the last block; they start at zero."""
    remember_ids(model)
    last = len(model.blocks) - 1
    tables = {layer: nn.Parameter(torch.zeros(model.vocab_size, model.width)) for layer in (0, last)}
    for layer, table in tables.items():
        model.register_parameter(f"values{layer}", table)

    def change(layer: int, qkv: Tensor) -> Tensor:
        if layer not in tables:
            return qkv
        more = F.embedding(model.ids, tables[layer]).view(qkv[:, :, 2].shape)
        return torch.cat([qkv[:, :, :2], (qkv[:, :, 2] + more.to(qkv.dtype))[:, :, None]], 2)

    attention(model, change)


def head_gates(model: TinyLM) -> None:
    gates = [nn.Parameter(torch.zeros(block.attention.heads, 12)) for block in model.blocks]
    for layer, gate in enumerate(gates):
        model.register_parameter(f"gate{layer}", gate)
    attention(model, lambda _, qkv: qkv, gates)


def skips(model: TinyLM) -> None:
    """Each block reads a mixture of what comes to it and the embedding; it begins with the first alone."""
    shares = nn.Parameter(torch.tensor([[1.0, 0.0]] * len(model.blocks)))
    model.register_parameter("shares", shares)

    def run(blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        first = x
        for share, block in zip(shares, blocks, strict=True):
            x = block(share[0] * x + share[1] * first, mask)
        return x

    model.run_blocks = run


def hashed_pairs(model: TinyLM) -> None:
    """A table of as many rows as words, by a hash of a word and the one before it, added to the input."""
    plain, pairs = model.vectors, nn.Parameter(torch.zeros(model.vocab_size, model.width))
    model.register_parameter("pairs", pairs)

    def vectors(ids: Tensor) -> Tensor:
        rows = (F.pad(ids[:, :-1], (1, 0)) * 1_000_003 + ids * 7_919) % len(pairs)
        return plain(ids) + F.embedding(rows, pairs) * model.embedding_scale

    model.vectors = vectors


def soft_cap(model: TinyLM, cap: float = 15.0) -> None:
    """Logits cap * tanh(logits / cap)."""

    def nats(inputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
        weight, bias, factor = model.output_layer()
        logits = F.linear(model.hidden(inputs).flatten(0, 1) * factor, weight, bias).float()
        return F.cross_entropy(cap * torch.tanh(logits / cap), targets.flatten(), reduction=reduction, ignore_index=-1)

    model.loss = lambda inputs, targets: nats(inputs, targets, "sum")
    model.token_loss = lambda inputs, targets: nats(inputs, targets, "none").view(targets.shape)


def zero_projections(model: TinyLM) -> None:
    with torch.no_grad():
        for block in model.blocks:
            block.attention.out.weight.zero_()
            block.feed_forward.down.weight.zero_()


def relu_squared(model: TinyLM) -> None:
    def squared(part: Any) -> Callable[[Tensor], Tensor]:
        return lambda x: part.down(F.relu(part.up(x)).square())

    for block in model.blocks:
        block.feed_forward.forward = squared(block.feed_forward)


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)), as many weights as the feed-forward that it replaces."""

    def __init__(self, width: int, inner: int, layers: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        for part, std in ((self.gate, width**-0.5), (self.up, width**-0.5), (self.down, (2 * inner * layers) ** -0.5)):
            nn.init.normal_(part.weight, std=std)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def swiglu(model: TinyLM) -> None:
    for block in model.blocks:
        assert isinstance(block, Block)
        inner = block.feed_forward.up.weight.shape[0] * 2 // 3
        block.feed_forward = SwiGLU(model.width, inner, len(model.blocks))


class Changed(Muon):
    """Muon with a change: `before` and `after` its direction is orthogonalised, or of what decays (`decays`)."""

    progress = 0.0

    def __init__(self, plain: Muon, before: Any = None, after: Any = None, decays: Any = None) -> None:
        self.__dict__.update(plain.__dict__)
        self.before, self.after, self.decays = before, after, decays
        self.kept: dict[int, dict[str, Tensor]] = {}

    @torch.no_grad()
    def _move(self, lr: float, group: list[Piece]) -> None:
        moved = []
        for target, grad, momentum in group:
            momentum.lerp_(grad, 1.0 - self.beta)
            kept = self.kept.setdefault(target.data_ptr(), {})
            direction = grad.lerp(momentum, self.beta)
            if self.before:
                direction = self.before(kept, self.updates, grad, direction)
            tall = target.shape[0] > target.shape[1]
            moved.append((target, kept, tall, (direction.mT if tall else direction).to(self.dtype)))
        for (target, kept, tall, _), found in zip(
            moved, orthogonalise(torch.stack([it[3] for it in moved])), strict=True
        ):
            direction = (found.mT if tall else found).float()
            if self.after:
                direction = self.after(kept, self.updates, direction)
            target.mul_(1.0 - lr * self.weight_decay * (self.decays(target, direction) if self.decays else 1.0))
            target.sub_(direction, alpha=lr * max(1.0, target.shape[0] / target.shape[1]) ** 0.5)


def nor(kept: dict[str, Tensor], updates: int, direction: Tensor) -> Tensor:
    """NorMuon: each row divided by its running size, the whole keeps its norm."""
    square = direction.square().mean(1, keepdim=True)
    running = kept.setdefault("rows", torch.zeros_like(square)).lerp_(square, 0.05)
    scaled = direction / (running / (1 - 0.95**updates)).sqrt().clamp_min(1e-10)
    return scaled * (direction.norm() / scaled.norm())


def soap(kept: dict[str, Tensor], updates: int, grad: Tensor, direction: Tensor) -> Tensor:
    """Divided by its running size in the eigenvectors of the shorter side's second moment, found every ten updates."""
    short = grad if grad.shape[0] <= grad.shape[1] else grad.mT
    kept.setdefault("moment", torch.zeros(len(short), len(short))).lerp_(short @ short.mT, 0.05)
    if updates % 10 == 1:
        kept["basis"] = torch.linalg.eigh(kept["moment"])[1]
    turned = kept["basis"].mT @ short
    running = kept.setdefault("squares", torch.zeros_like(turned)).lerp_(turned.square(), 0.05)
    long = direction if short is grad else direction.mT
    scaled = (kept["basis"].mT @ long) / (running / (1 - 0.95**updates)).sqrt().clamp_min(1e-12)
    found = kept["basis"] @ scaled
    return found if short is grad else found.mT


def muon(**changes: Any) -> Callable[[Trainer], None]:
    def change(trainer: Trainer) -> None:
        plain, peak = trainer.optimizers[0]
        assert isinstance(plain, Muon)
        trainer.optimizers[0] = Changed(plain, **changes), peak

    return change


def schedule(shape: Callable[[float], float]) -> Callable[[Trainer], None]:
    """shape: progress after the warm-up -> share of the peak."""

    def rate(progress: float, peak: float, warmup: float, kind: str, final: float) -> float:
        return peak * (progress / warmup if progress < warmup else shape((progress - warmup) / (1 - warmup)))

    def change(trainer: Trainer) -> None:
        training.learning_rate = rate

    return change


def growing(trainer: Trainer, place: int, progress: float) -> list[Batch]:
    """Half of the batch, all of it, twice as much: a third of the tokens each."""
    return [trainer.batches.batch(place + i) for i in range(1 << min(2, int(progress * 3)))]


def lengthening(trainer: Trainer, place: int, progress: float) -> list[Batch]:
    """Windows cut in two for the first half of the run."""
    batch = trainer.batches.batch(place)
    width = batch.inputs.shape[1]
    if progress >= 0.5 or width % 2 or len(batch.inputs) * width != batch.tokens:
        return [batch]
    return [Batch(batch.inputs.reshape(-1, width // 2), batch.targets.reshape(-1, width // 2), batch.tokens)]


def linear(left: float) -> float:
    return max(0.0, 1 - left)


CANDIDATES: dict[str, Candidate] = {
    "the recipe": Candidate(),
    "learned positions": Candidate(form={"positions": "learned"}),
    "hashed pairs of words": Candidate(build=hashed_pairs),
    "value embeddings": Candidate(build=value_embeddings),
    "QK-norm": Candidate(build=qk_norm),
    "ReLU^2": Candidate(build=relu_squared),
    "projections start at zero": Candidate(build=zero_projections),
    "skips from the embedding": Candidate(build=skips),
    "logits capped at 15": Candidate(build=soft_cap),
    "gates on heads": Candidate(build=head_gates),
    "output layer of its own": Candidate(form={"tied_output": False}),
    "SwiGLU": Candidate(build=swiglu),
    "NorMuon": Candidate(learner=muon(after=nor)),
    "SOAP-Muon": Candidate(learner=muon(before=soap)),
    "cautious decay of 0.3": Candidate(
        train={"weight_decay": 0.3}, learner=muon(decays=lambda target, direction: (target * direction > 0).float())
    ),
    "batch grows": Candidate(train={"batch": 0.5}, batches=growing),
    "windows grow": Candidate(batches=lengthening),
    "linear to zero": Candidate(learner=schedule(linear)),
    "flat, then linear to zero from 0.4": Candidate(learner=schedule(lambda x: min(1.0, (1 - x) / 0.6))),
    "1 - sqrt": Candidate(learner=schedule(lambda x: 1 - math.sqrt(min(1.0, x)))),
    "mean of the last fifth": Candidate(average=lambda progress, n: 1 / (n + 1) if progress >= 0.8 else None),
    "moving average, 0.95": Candidate(average=lambda progress, n: 0.05 if n else 1.0),
}

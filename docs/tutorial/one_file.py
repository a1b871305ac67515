"""tinylm in one file: the default model, its loss, its updates and greedy text, in plain PyTorch.

    python docs/tutorial/one_file.py            trains 200 updates in under a minute, then writes a text

Read it from top to bottom. It reads what stage vocab writes (`dvc repro vocab`), and needs torch
only. A test shows that its updates in float32 equal those of the package, and that its greedy text is
the same. The package does the same work faster, in bf16, with checks, snapshots and settings.

B rows of T tokens, D columns, H heads of Dh columns, V tokens in the vocabulary.
"""

import hashlib
import itertools
import json
import math
import struct
import sys
from array import array
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

# The default settings of params.yaml
LAYERS = 4
HEADS = 4
FEED_FORWARD = 512
CONTEXT = 192  # the most tokens that the model attends to
BATCH = 8  # rows of a mini-batch
BUDGET = 1_600_000  # tokens that the learning rate's schedule spans
LR = 3e-3  # of AdamW
MUON_LR = 0.02
WEIGHT_DECAY = 0.01
CLIP = 1.0
SEED = 1
SOS, EOS, PAD, UNK = range(4)


# ---- data -------------------------------------------------------------------------------------


def read_vocabulary(folder: Path) -> list[str]:
    """Token i is the word with id i."""
    ids = json.loads((folder / "vocab/tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    return sorted(ids, key=ids.__getitem__)


def read_embedding(folder: Path) -> Tensor:
    """The word vectors before training, (V, D). The file is: length, JSON header, numbers."""
    content = (folder / "vocab/embedding.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    entry = json.loads(content[8 : 8 + length])["embedding"]
    start, end = entry["data_offsets"]
    numbers = bytearray(content[8 + length + start : 8 + length + end])
    return torch.frombuffer(numbers, dtype=torch.float32).view(entry["shape"])


def read_stories(folder: Path, split: str) -> list[list[int]]:
    """Each story as ids: <sos> word word ... <eos>."""
    ids = array("H", (folder / f"tokens/{split}.ids").read_bytes())
    offsets = array("q", (folder / f"tokens/{split}.offsets").read_bytes())
    return [list(ids[a:b]) for a, b in itertools.pairwise(offsets)]


def seed_for(*names: object) -> int:
    """An independent seed for a purpose."""
    text = "\x1f".join(map(str, names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_rows(stories: list[list[int]]) -> list[list[int]]:
    """A row is a story; a story longer than the context continues in another row."""
    rows = []
    for story in stories:
        for start in range(0, len(story) - 1, CONTEXT):
            rows.append(story[start : start + CONTEXT + 1])
    return rows


def order_of_batches(rows: list[list[int]], epoch: int = 0) -> list[list[int]]:
    """The rows of each batch of an epoch. Rows of similar length share a batch."""
    dice = numpy.random.default_rng(seed_for(seed_for(SEED, "order"), "batches", "stories", epoch))
    shuffled = dice.permutation(len(rows)).tolist()
    pool = 64 * BATCH
    in_order: list[int] = []
    for start in range(0, len(shuffled), pool):
        in_order += sorted(shuffled[start : start + pool], key=lambda row: len(rows[row]))
    batches = [in_order[start : start + BATCH] for start in range(0, len(in_order), BATCH)]
    return [batches[number] for number in dice.permutation(len(batches))]


def make_batch(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Inputs and targets, (B, T): the targets are one token ahead, and -1 where nothing counts."""
    longest = max(map(len, rows)) - 1
    inputs = torch.full((len(rows), longest), PAD)
    targets = torch.full((len(rows), longest), -1)
    for number, row in enumerate(rows):
        inputs[number, : len(row) - 1] = torch.tensor(row[:-1])
        targets[number, : len(row) - 1] = torch.tensor(row[1:])
    return inputs, targets


# ---- model ------------------------------------------------------------------------------------


def sinusoids(width: int) -> Tensor:
    """Positions: sines and cosines of t / 10000^(2i / D).  -> (T, D)"""
    t = torch.arange(CONTEXT, dtype=torch.float64)[:, None]
    angles = t / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class Norm(nn.Module):
    """Mean 0 and variance 1 for each token's vector, then a learned gain and bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred * (variance + 1e-5).rsqrt() * self.gain + self.bias


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)).  (B, T, D) -> (B, T, D)"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = Norm(width)
        self.norm2 = Norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, FEED_FORWARD)
        self.down = nn.Linear(FEED_FORWARD, width)

    def attention(self, x: Tensor) -> Tensor:
        """Each head: softmax(Q K^T / sqrt(Dh) + mask) V."""
        qkv = self.qkv(x).unflatten(-1, (3, HEADS, -1))  # (B, T, 3, H, Dh)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])  # (B, H, T, T)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """Word vectors and positions, blocks, a norm, and a score for every word."""

    def __init__(self, embedding: Tensor) -> None:
        super().__init__()
        width = embedding.shape[1]
        self.embedding = nn.Parameter(embedding.clone())
        self.scale = embedding.square().mean().rsqrt()  # brings the vectors to unit mean square
        self.positions = sinusoids(width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.final_norm = Norm(width)
        for block in self.blocks:
            # Variance 1 / fan-in; smaller at the end of each branch, since 2 LAYERS of them add up.
            for layer in (block.qkv, block.out, block.up, block.down):
                std = layer.weight.shape[1] ** -0.5
                if layer in (block.out, block.down):
                    std /= (2 * LAYERS) ** 0.5
                nn.init.normal_(layer.weight, std=std)
                nn.init.zeros_(layer.bias)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores (logits) of the next word at each position.  (B, T) -> (B, T, V)"""
        x = self.embedding[ids] * self.scale + self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.final_norm(x)
        # The output layer uses the word vectors again, scaled so that the logits have unit variance.
        factor = self.scale.double() * self.embedding.shape[1] ** -0.5
        return (x * factor) @ self.embedding.T


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of -ln p(target) over the targets that count, in nats."""
    log_p = logits - logits.logsumexp(-1, keepdim=True)
    picked = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return -(picked * (targets >= 0)).sum()


# ---- one update -------------------------------------------------------------------------------


def learning_rate(progress: float) -> float:
    """Share of the peak rate: a linear start over 5 % of the budget, then a cosine down to 5 %."""
    if progress < 0.05:
        return progress / 0.05
    falling = min(1.0, (progress - 0.05) / 0.95)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * falling))


def orthogonalise(x: Tensor) -> Tensor:
    """Nearly U V^T of x = U S V^T, by products alone (three Newton-Schulz steps)."""
    if x.shape[0] > x.shape[1]:
        return orthogonalise(x.T).T
    square = x @ x.T
    size = torch.linalg.vector_norm(square, dtype=torch.float64)
    x = x / (1.02 * size.sqrt()).clamp_min(1e-15).float()
    for a, b, c in (
        (7.7110, -22.1138, 16.2488),
        (3.2153, -2.4112, 0.5013),
        (2.2183, -1.594, 0.4107),
    ):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


class Trainer:
    """Muon for the matrices of the blocks, AdamW for everything else."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.updates = 0
        self.tokens = 0
        self.state = {
            name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in model.named_parameters()
        }

    def update(self, inputs: Tensor, targets: Tensor) -> float:
        """Forward, backward, clip, step; returns the mean loss in nats per token."""
        self.model.zero_grad()
        tokens = int((targets >= 0).sum())
        loss = loss_sum(self.model(inputs), targets) / tokens
        loss.backward()
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.stack([g.double().square().sum() for g in grads]).sum().sqrt())
        if norm > CLIP:
            for g in grads:
                g.mul_(CLIP / norm)
        rate = learning_rate((self.tokens + tokens / 2) / BUDGET)
        self.updates += 1
        self.tokens += tokens
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                if name.startswith("blocks.") and p.dim() == 2:
                    self.muon(p, self.state[name][0], rate * MUON_LR, 3 if ".qkv." in name else 1)
                else:
                    self.adamw(p, *self.state[name], rate * LR)
        return loss.item()

    def muon(self, p: Tensor, m: Tensor, lr: float, maps: int) -> None:
        """Momentum 0.9, one step ahead, orthogonalised; query, key and value are separate maps."""
        m.lerp_(p.grad, 0.1)
        ahead = p.grad.lerp(m, 0.9)
        for matrix, direction in zip(p.chunk(maps), ahead.chunk(maps)):
            stretch = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
            matrix.mul_(1 - lr * WEIGHT_DECAY).sub_(orthogonalise(direction), alpha=lr * stretch)

    def adamw(self, p: Tensor, m: Tensor, v: Tensor, lr: float) -> None:
        """Running means of the gradient and of its square; no weight decay here."""
        m.lerp_(p.grad, 0.1)
        v.mul_(0.98).addcmul_(p.grad, p.grad, value=0.02)
        root = (v / (1 - 0.98**self.updates)).sqrt() + 1e-8
        p.sub_(m / root, alpha=lr / (1 - 0.9**self.updates))


# ---- text -------------------------------------------------------------------------------------


@torch.no_grad()
def greedy(model: Model, vocabulary: list[str], prompt: str, new_words: int) -> str:
    """Continue a text, each time by the likeliest word that may be written."""
    ids = [SOS, *(vocabulary.index(word) for word in prompt.split())]
    for _ in range(new_words):
        logits = model(torch.tensor([ids[-CONTEXT:]]))[0, -1]
        logits[[SOS, PAD, UNK]] = float("-inf")
        ids.append(int(logits.argmax()))
        if ids[-1] == EOS:
            break
    return " ".join(vocabulary[i] for i in ids if i not in (SOS, EOS))


def new_model(folder: Path) -> Model:
    """A model with fresh weights."""
    torch.manual_seed(seed_for(SEED, "train") % 2**63)
    return Model(read_embedding(folder))


def main(folder: Path, updates: int) -> None:
    vocabulary = read_vocabulary(folder)
    rows = make_rows(read_stories(folder, "train"))
    trainer = Trainer(new_model(folder))
    for number, batch in enumerate(order_of_batches(rows)[:updates], start=1):
        loss = trainer.update(*make_batch([rows[row] for row in batch]))
        if number % 20 in (0, 1):
            print(f"update {number}: loss {loss:.3f}", flush=True)
    print(greedy(trainer.model, vocabulary, "once upon a time", 60))


if __name__ == "__main__":
    main(Path("data"), int(sys.argv[1]) if len(sys.argv) > 1 else 200)

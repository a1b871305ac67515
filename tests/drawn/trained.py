"""Properties of stages download, vocab and train: every figure that they write is computed a second time."""

import copy
import functools
import itertools
import math
import re
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.drawn.drawing import DrawnRun
from tests.drawn.plain_files import SPLITS, Run, differs
from tests.drawn.plain_model import Weights
from tests.drawn.properties import holds
from tests.drawn.rounding import BF16, FP32, MORE_SHAKEN, SHAKEN, UNITS, Exact, ShakenModel, exactly
from tests.drawn.running import advance, in_folder, run_stage
from tinylm.base.command import CommandFailed, Interrupted
from tinylm.base.config import InputError, read_section
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.evaluate.truth import read_words
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.storybook.language import END
from tinylm.storybook.world import World
from tinylm.text.cleaning import clean_text
from tinylm.text.same_story import bare_text
from tinylm.train import trainer as trainer_module
from tinylm.train.muon import MARGIN, MOMENTUM, QUINTICS
from tinylm.train.optimizers import EPS
from tinylm.train.snapshot import SHARES
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import Batch, TrainBatches
from tinylm.vocab.embedding.counts import WINDOW, count_vectors
from tinylm.vocab.embedding.matrix_file import load_matrix
from tinylm.vocab.embedding.settings import SEED
from tinylm.vocab.token_store import TokenStore

# Words in the names of files.
VALIDATION = {"validation", "valid", "val", "dev"}
TEST = {"test", "eval"}
EVERY = 10  # updates per point of a curve
LAST = 20  # updates that the final train loss is the mean of
MOST_NATS = 600  # of a perplexity that a plot can show
LEAST = 2.0**-149  # positive number in float32; smaller moments are rounded to its multiples
SIX_DIGITS = 1e-5  # of the numbers in plots/


@holds("prepared")
def download_counts_the_stories_that_it_wrote(drawn: DrawnRun, folder: Path) -> None:
    """Stories, words split at white space, and the sum of log-probabilities of each split."""
    run = Run(folder)
    counted = run.json("data/figures/download")["splits"]
    for split in SPLITS:
        texts = run.texts(split)
        got = {key: counted[split][key] for key in ("stories", "words")}
        wanted = {"stories": len(texts), "words": sum(len(text.split()) for text in texts)}
        assert got == wanted, f"download.json, {split}: expected {wanted}, got {got}"
        is_told = run.world is not None and bool(texts)
        assert ("log_prob_nats" in counted[split]) == is_told, f"{split}: {counted[split]}"
        if is_told:
            nats = sum(log_prob(text, run.world) for text in texts)
            problem = differs(f"log_prob_nats of {split}", counted[split]["log_prob_nats"], nats)
            assert not problem, problem


def log_prob(story: str, world: World) -> float:
    """ln P of a story of the generator: the sum over its words."""
    positions = read_words([*world.normalise(story).split(), END], world)[:-1]
    return sum(math.log(following.probs[word]) for word, following in positions)


@holds("prepared")
def evaluation_stories_are_from_the_validation_files(drawn: DrawnRun, folder: Path) -> None:
    """Not from those of a test split, where a folder has both."""
    run = Run(folder)
    figures = run.json("data/figures/download")
    if run.world is not None:
        assert figures["seed"] == run.params["data"]["seed"]
    if run.params["data"]["source"] != "local" or len(drawn.files.stories) < 2:
        return
    named = {}
    # `datasets` reads the files of one layout alone; stage download says so of the others.
    not_read = figures.get("not_read", {})
    unread = {name for name, reason in not_read.items() if not reason.startswith("split ")}
    read = [name for name in drawn.files.stories if name.partition("/")[2] not in unread]
    for name in read:
        words = set(re.split(r"[^a-z]+", name.partition("/")[2]))
        named[name] = "validation" if words & VALIDATION else "test" if words & TEST else "train"
    official = [split for split in ("validation", "test") if split in named.values()]
    found = figures["files"].get("evaluation", [])
    wanted = [name.partition("/")[2] for name in named if official and named[name] == official[0]]
    assert sorted(found) == sorted(wanted), f"evaluation: expected {wanted}, got {found}"
    texts = [text for name in wanted for text in drawn.files.stories[f"{drawn.files.path}/{name}"]]
    known = {bare_text(clean_text(text)) for text in texts}
    if wanted and not run.params["data"]["drop_first_line"]:
        for text in run.texts("evaluation"):
            assert bare_text(text) in known, (
                f"an evaluation story is not from {wanted}: {text[:60]!r}"
            )


@holds("prepared")
def vectors_are_made_from_the_train_tokens(drawn: DrawnRun, folder: Path) -> None:
    """Those by counts have the rows that the train ids give; tokens that do not occur have no vector."""
    run = Run(folder)
    settings = run.params["embedding"]
    tokenizer = run.tokenizer
    sources = run.json("data/figures/vocab")["embedding"]
    ids = run.ids("train")
    size = len(tokenizer)
    occurring = set(ids.tolist()) - tokenizer.specials
    if settings["source"] == "counts":
        vectors = count_vectors(ids, size, settings["width"], WINDOW, SEED) * settings["std"]
        has_vector = np.any(vectors, axis=1)
        has_vector[[n for n in tokenizer.specials if n == tokenizer.pad_id]] = False
        matrix = load_matrix(folder / "data/vocab/embedding.safetensors")
        scale = 1e-4 * float(np.abs(vectors).max(initial=0.0))
        problem = differs("embedding", matrix[has_vector], vectors[has_vector], 1e-4, scale)
        assert not problem, problem
        occurring = {token for token in occurring if np.any(vectors[token])}
    if settings["source"] in ("counts", "skipgram") and run.params["data"]["held_out"] != "tokens":
        covered = sources["covered"]
        assert covered == len(occurring), f"covered: expected {len(occurring)}, got {covered}"


@holds("prepared")
def tokens_are_those_of_the_stories(drawn: DrawnRun, folder: Path) -> None:
    """Each split's ids are its encoded stories; with `held_out: tokens`, a cut through those of train."""
    run = Run(folder)
    data = run.params["data"]
    encoded = {}
    for split in SPLITS:
        encoded[split] = [run.tokenizer.encode_story(text) for text in run.texts(split)]
    flat = {split: list(itertools.chain(*stories)) for split, stories in encoded.items()}
    if data["held_out"] == "tokens":
        whole = flat["train"]
        cut = int((1 - data["held_out_share"]) * (len(whole) - data["overlap"]))
        flat["train"] = whole[: cut + data["overlap"]]
        flat["held_out"] = whole[cut:]
        flat["evaluation"] = flat["evaluation"] or flat["held_out"]
        by = run.json("data/figures/vocab")["split"]
        assert (by["stream_tokens"], by["cut"]) == (len(whole), cut), f"split: {by}"
    for split in SPLITS:
        assert run.ids(split).tolist() == flat[split], f"data/tokens/{split}.ids: not its stories"
        if data["held_out"] != "tokens":
            assert run.stories(split) == encoded[split], f"{split}: stories begin elsewhere"


@holds("prepared")
def vocabulary_figures_are_those_of_the_tokens(drawn: DrawnRun, folder: Path) -> None:
    """Size, words seen, tokens, unknown share, coverage, lengths of stories."""
    run = Run(folder)
    figures = run.json("data/figures/vocab")
    tokenizer = run.tokenizer
    size = len(tokenizer)
    matrix = load_matrix(folder / "data/vocab/embedding.safetensors")
    assert matrix.shape == (size, run.params["embedding"]["width"]), f"matrix {matrix.shape}"
    assert figures["size"] == size, f"size: expected {size}, got {figures['size']}"
    if "words_seen" in figures:
        words: Counter[str] = Counter()
        for text in run.texts("train"):
            words.update(tokenizer.split(text))
        wanted = (len(words), sum(count == 1 for count in words.values()))
        got = (figures["words_seen"], figures["words_seen_once"])
        assert got == wanted, f"words seen, and once: expected {wanted}, got {got}"
    marks = tokenizer.specials - {tokenizer.unk_id}
    for split in SPLITS:
        ids = run.ids(split)
        text = ids[~np.isin(ids, list(marks))]
        unknown = 0 if tokenizer.unk_id is None else int((text == tokenizer.unk_id).sum())
        share = unknown / len(text) if len(text) else 0.0
        got = [figures[key][split] for key in ("tokens", "unknown_share", "coverage")]
        problem = differs(f"{split}: tokens, unknown, coverage", got, [len(ids), share, 1 - share])
        assert not problem, problem
    lengths = [sum(token not in marks for token in story) for story in run.stories("train")]
    if any(lengths):
        wanted = [round(float(np.mean(lengths)), 3), float(np.median(lengths)), max(lengths)]
        got = [figures["sequence_length"][key] for key in ("mean", "median", "largest")]
        assert got == wanted, f"sequence_length: expected {wanted}, got {got}"
    sources = figures["embedding"]
    texts = size - len(tokenizer.specials)
    assert sources["width"] == matrix.shape[1], f"embedding.width: {sources['width']}"
    assert sources["words"] == texts, f"embedding.words: expected {texts}, got {sources['words']}"
    assert not (problem := differs("embedding.std", sources["std"], matrix.std(), 1e-4, 1e-6)), (
        problem
    )


@holds("trained")
def held_out_losses_are_those_of_the_weights(drawn: DrawnRun, folder: Path) -> None:
    """Before the first update, at the end, and where a checkpoint was kept at a validation."""
    run = Run(folder)
    figures = run.json("data/figures/train")
    precision = figures["precision"]
    curve = run.curve("loss", "held-out")
    assert curve[0, 0] == 0, f"the first validation is at update {curve[0, 0]}"
    wanted, tolerance = run.split_loss(first_weights(run), "held_out", precision)
    assert not (problem := differs("held-out at the start", curve[0, 2], wanted, 0, tolerance)), (
        problem
    )

    best = curve[np.argmin(curve[:, 2])]
    saved = curve[-1] if run.params["train"]["patience"] is None else best
    wanted, tolerance = run.split_loss(run.weights(), "held_out", precision)
    assert not (problem := differs("held-out at the end", saved[2], wanted, 0, tolerance)), problem
    problem = differs("held_out_loss", figures["held_out_loss"], saved[2], SIX_DIGITS)
    assert not problem, problem
    perplexity = figures["held_out_perplexity"]
    assert not (
        problem := differs("perplexity", math.log(perplexity), min(saved[2], MOST_NATS), SIX_DIGITS)
    ), problem
    for epoch, tokens in asked_checkpoints(run).items():
        measured = curve[curve[:, 1] >= tokens]
        if not len(measured) or not (folder / f"models/checkpoints/{epoch}.safetensors").exists():
            continue
        before = run.curve("loss", "held-out")[:, 1] < tokens
        if before.any() and measured[0, 0] - curve[before][-1, 0] > 1:
            continue  # updates between: the checkpoint may be an earlier one
        weights = run.weights(f"models/checkpoints/{epoch}")
        wanted, tolerance = run.split_loss(weights, "held_out", precision)
        problem = differs(f"held-out at epoch {epoch}", measured[0, 2], wanted, 0, tolerance)
        assert not problem, problem


def first_weights(run: Run) -> Weights:
    """Before the first update: the matrix of stage vocab, and what the seed draws."""
    matrix = torch.from_numpy(load_matrix(run.folder / "data/vocab/embedding.safetensors"))
    settings = read_section(run.params, "model", ModelSettings, "params.yaml")
    seed_everything(derive_seed(run.params["train"]["seed"], "train"), 1)
    return TinyLM(settings, matrix).state_dict()


def asked_checkpoints(run: Run) -> dict[str, int]:
    """The names of the checkpoints that were asked for, and after how many tokens each is due."""
    epochs = run.params["train"]["keep_epochs"]
    per_epoch = run.tokens_per_epoch
    if epochs is None:
        epochs = [float(f"{share * budget_of(run) / per_epoch:.3g}") for share in SHARES]
    due = {repr(float(epoch)).removesuffix(".0"): round(epoch * per_epoch) for epoch in epochs}
    return {name: tokens for name, tokens in due.items() if tokens}


def budget_of(run: Run) -> int:
    train = run.params["train"]
    if train["tokens"] is not None:
        return int(train["tokens"])
    return round(train["epochs"] * run.tokens_per_epoch)


@dataclass
class Updated:
    """One update as it happened. state: of the model before and after. grads: as the optimizer got them."""

    batches: list[Batch]
    loss: float
    rate: float
    norm: float
    before: Weights
    grads: Weights
    after: Weights


def recorded_training(folder: Path, cut: int) -> list[Updated]:
    """Run stage train on a clock that ticks once per update; a signal comes during update `cut`.

    The interrupted run is continued.
    """
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    updates: dict[int, Updated] = {}
    cuts = [cut]
    launch = Trainer.launch

    def recorded(trainer: Trainer, batches: list[Batch]) -> Any:
        if trainer.updates in cuts:
            cuts.clear()
            signal.raise_signal(signal.SIGTERM)
        before = copy.deepcopy(trainer.model.state_dict())
        update = launch(trainer, batches)
        clock.now += 1
        grads = {}
        for name, parameter in trainer.model.named_parameters():
            if parameter.grad is not None:
                grads[name] = parameter.grad.clone()
        after = copy.deepcopy(trainer.model.state_dict())
        updates[update.number] = Updated(batches, *update.result(), before, grads, after)
        return update

    with in_folder(folder) as patch:
        patch.setattr(Trainer, "launch", recorded)
        patch.setattr(trainer_module, "time", clock)
        try:
            run_stage("train")
        except Interrupted:
            run_stage("train")
    return [updates[number] for number in sorted(updates)]


@holds("alone", settings_alone=True)
def every_update_follows_from_its_formula(drawn: DrawnRun, folder: Path) -> None:
    """Loss, gradient, learning rate and step of each update; and all that is written about them.

    The run is interrupted once, and continued.
    """
    for level in ("planted", "prepared"):
        advance(level, drawn, folder)
    run = Run(folder)
    try:
        updates = recorded_training(folder, cut=drawn.number % 40)
    except (CommandFailed, InputError):
        return  # every_stage_ends judges this; weights may have diverged
    check_mini_batches(run, updates)
    last = len(updates) - 1  # 0 if there is only one update
    chosen = {0, min(1, last), drawn.number % len(updates), last}
    if not run.params["model"]["dropout"]:
        for number in sorted(chosen):
            check_gradient(run, number, updates[number])
    check_steps(run, updates)
    check_curves(run, updates)
    check_validations(run, updates)
    check_checkpoints(run, updates)


def check_mini_batches(run: Run, updates: list[Updated]) -> None:
    """All mini-batches in order, until the next update would exceed the budget or patience ends."""
    train = run.params["train"]
    store = TokenStore(run.folder / "data/tokens", "train")
    tokenizer = run.tokenizer
    batches = TrainBatches(
        store, train["layout"], train["batch_size"], run.context, tokenizer.pad_id,
        derive_seed(train["seed"], "order"),
    ).with_unknown(tokenizer.unk_id, train["unknown"])  # fmt: skip
    index = tokens = 0
    for number, update in enumerate(updates, start=1):
        for batch in update.batches:
            expected = batches.batch(index)
            is_same = batch.inputs.equal(expected.inputs) and batch.targets.equal(expected.targets)
            assert is_same, f"update {number}: not mini-batch {index}"
            scored = int((batch.targets >= 0).sum())
            assert batch.tokens == scored, f"update {number}: {batch.tokens} tokens, not {scored}"
            tokens += scored
            index += 1
        is_short = len(update.batches) < train["accumulation"]
        assert not is_short or number == len(updates), f"update {number} has {len(update.batches)}"
    assert tokens <= budget_of(run), f"{tokens} tokens with a budget of {budget_of(run)}"
    figures = run.json("data/figures/train")
    assert figures["tokens"] == tokens, f"tokens: expected {tokens}, got {figures['tokens']}"
    assert figures["updates"] == len(updates)
    problem = differs("epochs", figures["epochs"], tokens / run.tokens_per_epoch)
    assert not problem, problem
    if not figures["stopped_early"]:
        more = 1 if train["epochs"] is not None else train["accumulation"]
        left = sum(batches.batch(index + further).tokens for further in range(more))
        assert tokens + left > budget_of(run), "training ended before its budget"


def check_gradient(run: Run, number: int, update: Updated) -> None:
    """Loss, clipped gradient and its norm before clipping, by autograd through the plain model."""
    precision = run.json("data/figures/train")["precision"]
    is_frozen = run.params["model"]["embedding"] == "frozen"
    fixed = {"embedding_scale"} | ({"embedding"} if is_frozen else set())
    trained = [name for name in update.before if name not in fixed]
    assert set(update.grads) == set(trained), f"gradients of {set(update.grads) ^ set(trained)}"
    clip = run.params["train"]["clip_norm"]
    factor = 1.0 if clip is None else min(1.0, clip / update.norm)
    for shaken in (SHAKEN, MORE_SHAKEN):
        exact = plain_gradient(run, update, trained, UNITS[precision], shaken)
        if is_decided_by_rounding(exact):
            return
        is_last = shaken == MORE_SHAKEN
        try:
            check_loss_and_norm(update, exact, f"update {number + 1}")
            for name, wanted in zip(trained, exact[1:], strict=True):
                # Less than 1e-30 is lost in float32.
                clipped = Exact(factor * wanted.value, factor * wanted.bound + 1e-30)
                clipped.check(update.grads[name], f"update {number + 1}: gradient of {name}")
            return
        except AssertionError:
            if is_last:
                raise


def is_decided_by_rounding(exact: list[Exact]) -> bool:
    """Whether rounding alone moves the gradient by a fifth: after divergence, a softmax jumps from token to token.

    Then no number of shaken models bounds the error. exact: the loss, then the gradient of each weight.
    """
    norm, bound = norm_and_bound(exact)
    return bound > norm / 5


def norm_and_bound(exact: list[Exact]) -> tuple[float, float]:
    """Of the whole gradient."""
    norm = math.sqrt(sum(float(one.value.square().sum()) for one in exact[1:]))
    bound = math.sqrt(sum(one.bound**2 for one in exact[1:]))
    return norm, bound


def check_loss_and_norm(update: Updated, exact: list[Exact], what: str) -> None:
    """exact: the loss, then the gradient of each weight."""
    exact[0].check(torch.tensor(update.loss, dtype=torch.float64), f"loss of {what}")
    norm, bound = norm_and_bound(exact)
    allowed = bound + 1e-5 * norm
    error = abs(update.norm - norm)
    assert error <= allowed, f"norm of {what}: expected {norm:.9g}, got {update.norm:.9g}"


def plain_gradient(
    run: Run, update: Updated, trained: list[str], unit: float, shaken: int
) -> list[Exact]:
    """[nats per token of an update, gradient of each weight that is trained], with their bounds."""

    def compute(plain: ShakenModel) -> list[Tensor]:
        for name in trained:
            plain.weights[name].requires_grad_()
        nats: Any = 0.0
        for batch in update.batches:
            log_probs = plain(batch.inputs).log_softmax(-1)
            chosen = log_probs.gather(-1, batch.targets.clamp(min=0)[..., None])[..., 0]
            nats = nats - (chosen * (batch.targets >= 0)).sum()
        loss = nats / sum(batch.tokens for batch in update.batches)
        return [loss, *torch.autograd.grad(loss, [plain.weights[name] for name in trained])]

    weights = {name: weight.clone() for name, weight in update.before.items()}
    is_fused = run.params["train"]["attention"] == "torch"
    make = functools.partial(ShakenModel, weights, run.params["model"], is_fused=is_fused)
    return exactly(compute, make, unit, shaken=shaken)


def share_of_rate(train: dict[str, Any], progress: float) -> float:
    """Of the peak: a line from 0 over the warm-up, then constant or half a cosine."""
    warmup = train["warmup"]
    if progress < warmup:
        return progress / warmup
    if train["schedule"] == "constant":
        return 1.0
    assert train["schedule"] == "cosine", f"{train['schedule']}: write its formula here"
    left = 1 - min((progress - warmup) / (1 - warmup), 1)
    return train["final_lr"] + (1 - train["final_lr"]) * (1 - math.cos(math.pi * left)) / 2


def check_steps(run: Run, updates: list[Updated]) -> None:
    """Learning rates and weights after each step, from the gradients and the weights before it."""
    train = run.params["train"]
    tokens = 0
    moments: dict[str, tuple[Tensor, Tensor]] = {}
    lost: dict[str, Tensor] = {}  # what rounding may have changed in the gradients so far
    in_bf16 = run.json("data/figures/train")["precision"] == "bf16"
    for number, update in enumerate(updates, start=1):
        of_update = sum(batch.tokens for batch in update.batches)
        share = share_of_rate(train, (tokens + of_update / 2) / budget_of(run))
        tokens += of_update
        problem = differs(f"learning rate of update {number}", update.rate, share * train["lr"])
        assert not problem, problem
        if number > 1:
            for name, weight in updates[number - 2].after.items():
                assert weight.equal(update.before[name]), (
                    f"{name} changed after update {number - 1}"
                )
        for name, before in update.before.items():
            if name not in update.grads:
                assert update.after[name].equal(before), f"update {number} changed {name}"
                continue
            is_matrix = name.startswith("blocks.") and before.dim() == 2
            decay = train["weight_decay"] if is_matrix or train["decay"] == "all" else 0.0
            grad = update.grads[name].double()
            first, second = moments.get(name, (torch.zeros_like(grad), torch.zeros_like(grad)))
            if train["optimizer"] == "muon" and is_matrix:
                rate = share * train["muon_lr"]
                first = MOMENTUM * first + (1 - MOMENTUM) * grad
                direction = (1 - MOMENTUM) * grad + MOMENTUM * first
                pieces = direction.chunk(3 if ".qkv." in name else 1)
                step = torch.cat([orthogonal(piece) for piece in pieces])
                kept = before.double() * (1 - rate * decay)
                wanted = kept - rate * step
                # Each of the quintics multiplies rounding by its first number: by 55 in all.
                tolerance = rate * 2e-3 * step.abs().max()
                if in_bf16:
                    tolerance = torch.tensor(math.inf)  # of an entry: the bound is one of norms
                    errors = (update.after[name].double() - wanted).chunk(len(pieces))
                    for piece, error in zip(pieces, errors, strict=True):
                        allowed = rate * bf16_error(piece) + 1e-6 * before.double().norm() + 1e-37
                        assert error.norm() <= allowed, (
                            f"update {number}, {name}: off by {error.norm():.3g} in norm, {allowed:.3g} allowed"
                        )
            else:
                assert train["optimizer"] in ("adam", "adamw", "muon"), "write its formula here"
                rate = share * train["lr"]
                kept = before.double()
                terms = grad.abs()
                if train["optimizer"] == "adam":
                    grad = grad + decay * kept
                    terms = terms + decay * kept.abs()
                else:
                    kept = kept * (1 - rate * decay)
                first = train["beta1"] * first + (1 - train["beta1"]) * grad
                second = train["beta2"] * second + (1 - train["beta2"]) * grad.square()
                scale = (second / (1 - train["beta2"] ** number)).sqrt() + EPS
                step = first / (1 - train["beta1"] ** number) / scale
                wanted = kept - rate * step
                # Gradient, decay and moment may cancel: what is left keeps the rounding of the terms.
                before_it = train["beta1"] * lost.get(name, torch.zeros_like(grad))
                lost[name] = before_it + 2 * FP32 * (terms + first.abs()) + LEAST
                relative = lost[name] / scale
                of_terms = relative / (1 - train["beta1"] ** number) + relative * step.abs()
                tolerance = rate * (1e-3 * step.abs().max() + of_terms)
            moments[name] = (first, second)
            largest = max(float(before.abs().max()), float(kept.abs().max()))
            allowed = tolerance + 1e-6 * largest + 1e-37  # the least float
            error = (update.after[name].double() - wanted).abs()
            worst = int((error - allowed).argmax())
            assert (error <= allowed).all(), (
                f"update {number}, {name}[{worst}]: expected {wanted.flatten()[worst]:.7g}, "
                f"got {update.after[name].flatten()[worst]:.7g}"
            )


def unchanged(x: Tensor) -> Tensor:
    return x


def orthogonal(matrix: Tensor, rounded: Callable[[Tensor], Tensor] = unchanged) -> Tensor:
    """Three quintics that bring singular values to 1, times sqrt(max(1, rows / columns)).

    matrix: one or a stack of them. rounded: what happens to each result.
    """
    rows, columns = matrix.shape[-2:]
    x = rounded(matrix if rows <= columns else matrix.mT)
    size = rounded(x @ x.mT).norm(dim=(-2, -1), keepdim=True)
    x = rounded(x / (MARGIN * size.sqrt()).clamp_min(1e-15))
    for a, b, c in QUINTICS:
        square = rounded(x @ x.mT)
        x = rounded(a * x + rounded(b * square + c * square @ square) @ x)
    return (x if rows <= columns else x.mT) * math.sqrt(max(1, rows / columns))


def bf16_error(matrix: Tensor) -> Tensor:
    """The largest error, as a norm, that bf16 may cause: three times what random rounding errors cause.

    In 600 random matrices, the largest error was 1.7 times what 40 random rounding errors caused.
    """
    generator = torch.Generator().manual_seed(0)

    def rounded(x: Tensor) -> Tensor:
        return x * (1 + BF16 * (2 * torch.rand(x.shape, generator=generator).double() - 1))

    shaken = orthogonal(matrix.expand(MORE_SHAKEN, *matrix.shape), rounded)
    return 3 * (shaken - orthogonal(matrix)).norm(dim=(-2, -1)).max()


def tokens_after(updates: list[Updated]) -> list[int]:
    """Tokens after each number of updates, from 0 on."""
    counts = [sum(batch.tokens for batch in update.batches) for update in updates]
    return [0, *itertools.accumulate(counts)]


def check_curves(run: Run, updates: list[Updated]) -> None:
    """Curves, the final train loss, epochs and times follow from the updates."""
    tokens = tokens_after(updates)
    ends = range(EVERY, len(updates) + 1, EVERY)
    loss = [update.loss for update in updates]
    norm = [update.norm for update in updates]
    means = [(end, tokens[end], np.mean(loss[end - EVERY : end])) for end in ends]
    curves = {
        ("loss", "train"): means,
        ("learning_rate", "learning rate"): [
            (end, tokens[end], updates[end - 1].rate) for end in ends
        ],
        ("grad_norm", "gradient norm"): [
            (end, tokens[end], np.mean(norm[end - EVERY : end])) for end in ends
        ],
    }
    for (name, series), rows in curves.items():
        wanted = np.array(rows).reshape(-1, 3)
        problem = differs(
            f"plots/{name}.csv, {series}", run.curve(name, series), wanted, SIX_DIGITS
        )
        assert not problem, problem
    figures = run.json("data/figures/train")
    assert not (problem := differs("train_loss", figures["train_loss"], np.mean(loss[-LAST:]))), (
        problem
    )
    by_epoch = figures.get("by_epoch", [])
    held_out = {row[0]: row[2] for row in run.curve("loss", "held-out")}
    epochs = [count // run.tokens_per_epoch for count in tokens]
    ends = [number for number in range(1, len(epochs)) if epochs[number] > epochs[number - 1]]
    got = [
        (row["epoch"], row["update"], row["train_loss"], row["held_out_loss"]) for row in by_epoch
    ]
    wanted = []
    for start, end in itertools.pairwise([0, *ends]):
        wanted.append((epochs[end], end, np.mean(loss[start:end]), held_out[end]))
    assert not (problem := differs("by_epoch", got, wanted, SIX_DIGITS)), problem
    times = run.json("data/times/train")
    speed = round(tokens[-1] / len(updates), 1)
    got = [times[key] for key in ("train_s", "tokens_per_s", "epoch_s")]
    wanted = [len(updates), speed, round(run.tokens_per_epoch / speed, 2)]
    problem = differs("train_s, tokens_per_s and epoch_s at a second per update", got, wanted)
    assert not problem, problem


def check_validations(run: Run, updates: list[Updated]) -> None:
    """They are at the start, every `validate_every` updates, after each epoch, and at the end."""
    train = run.params["train"]
    tokens = tokens_after(updates)
    every = train["validate_every"]
    due = {0, len(updates), *range(0, len(updates) + 1, every)}
    for number in range(1, len(updates) + 1):
        if tokens[number] // run.tokens_per_epoch > tokens[number - 1] // run.tokens_per_epoch:
            due.add(number)
    curve = run.curve("loss", "held-out")
    wanted = [(number, tokens[number]) for number in sorted(due)]
    assert not (problem := differs("validations", curve[:, :2], wanted)), problem
    for series in ("train", "held-out"):
        rows = run.curve("loss", series)
        found = run.curve("perplexity", series)
        found[:, 2] = np.log(found[:, 2])
        rows[:, 2] = rows[:, 2].clip(max=MOST_NATS)
        problem = differs(f"plots/perplexity.csv, {series}", found, rows, 1e-5, SIX_DIGITS)
        assert not problem, problem

    figures = run.json("data/figures/train")
    lowest = curve[:, 2].min()
    got = [figures[f"held_out_loss_{key}"] for key in ("last", "best")]
    problem = differs("last and best validation", got, [curve[-1, 2], lowest], SIX_DIGITS)
    assert not problem, problem
    best = curve[curve[:, 2] == lowest, 0]  # several may be equal in six digits
    assert figures["best_update"] in best, f"best update: expected {best}"
    if len(best) > 1:
        return
    patience = train["patience"] or math.inf
    stops = []
    for end in range(1, len(curve) + 1):
        known = curve[:end]
        latest = known[np.argmin(known[:, 2]), 0]
        worse = [update for update in known[:, 0] if update > latest and update % every == 0]
        if len(worse) >= patience:
            stops.append(int(known[-1, 0]))
    assert figures["stopped_early"] == bool(stops), f"validations without improvement at {stops}"
    assert not stops or stops[0] == len(updates), (
        f"patience ended at {stops[0]}, not {len(updates)}"
    )


def check_checkpoints(run: Run, updates: list[Updated]) -> None:
    """Those that were asked for, with the weights of that moment; and the saved weights, with their tokens.

    An epoch that the budget ends just short of has the last weights.
    """
    tokens = tokens_after(updates)
    figures = run.json("data/figures/train")
    folder = run.folder / "models/checkpoints"
    found = {path.stem for path in folder.glob("*.safetensors")}
    asked = asked_checkpoints(run)
    reached = {name: goal for name, goal in asked.items() if goal <= tokens[-1]}
    if run.params["train"]["keep_epochs"] is not None and not figures["stopped_early"]:
        reached = asked
    assert found == set(reached), f"checkpoints: expected {sorted(reached)}, got {sorted(found)}"
    for name, goal in reached.items():
        number = next((n for n, count in enumerate(tokens) if count >= goal), len(updates))
        weights = run.weights(f"models/checkpoints/{name}")
        check_weights(f"checkpoint {name}", weights, updates[number - 1].after)
    number = len(updates)
    got = [figures.get(f"saved_{unit}") for unit in ("tokens", "epochs")]
    saved = [None, None]
    if run.params["train"]["patience"] is not None:
        number = int(figures["best_update"])
        saved = [tokens[number], tokens[number] / run.tokens_per_epoch]
    assert not (problem := differs("saved_tokens and saved_epochs", got, saved)), problem
    wanted = updates[number - 1].after if number else updates[0].before
    check_weights("models/model", run.weights(), wanted)


def check_weights(name: str, got: Weights, wanted: Weights) -> None:
    """To the last bit."""
    assert set(got) == set(wanted), f"{name}: {set(got) ^ set(wanted)}"
    for key, tensor in got.items():
        assert tensor.equal(wanted[key]), f"{name}: {key} is not that of its update"

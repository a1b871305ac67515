"""TransformerLens: its bridge to exports for transformers, with ids and with texts."""

from importlib.metadata import version

import numpy as np
import torch
from comparing import Report, Written, written_models
from transformer_lens.model_bridge import TransformerBridge

ROUNDING = 1e-3  # nats, of the mean over a text
UNIT = "nats per token"
report = Report("transformer-lens", version("transformer-lens"))


def read(model: Written) -> TransformerBridge:
    folder = str(model.folder / "transformers")
    return TransformerBridge.boot_transformers(folder, device="cpu", dtype=torch.float32)


@torch.no_grad()
def logits(model: Written) -> float:
    """Largest difference over all rows."""
    found = read(model)(torch.from_numpy(model.expected["rows"]))
    return float(np.abs(found.numpy() - model.expected["logits"]).max())


@torch.no_grad()
def log_probs_after_folding(model: Written) -> float:
    """Largest difference of log-probabilities once biases and norms are folded into the weights."""
    bridge = read(model)
    bridge.enable_compatibility_mode()
    found = bridge(torch.from_numpy(model.expected["rows"])).log_softmax(-1)
    wanted = torch.from_numpy(model.expected["logits"]).log_softmax(-1)
    return float((found - wanted).abs().max())


@torch.no_grad()
def loss(model: Written, **settings: bool) -> float:
    """Difference of the loss of the first text that the context holds, given as text."""
    rows = model.expected["text_log_probs"]
    index = int(np.isfinite(rows[:, 0]).argmax())
    found = read(model)(model.card["texts"][index][0], return_type="loss", **settings)
    return abs(float(found) + float(np.nanmean(rows[index])))


@torch.no_grad()
def loss_of_two(model: Written, as_ids: bool) -> float:
    """Difference of the loss of the shortest and the longest text together, as texts or as padded ids."""
    rows = model.expected["text_log_probs"]
    counts = np.isfinite(rows).sum(1)
    held = np.flatnonzero(counts)  # texts that the context holds
    two = [held[counts[held].argmin()], held[counts[held].argmax()]]
    bridge = read(model)
    texts = [model.card["texts"][index][0] for index in two]
    inputs = bridge.to_tokens(texts, prepend_bos=True) if as_ids else texts
    found = bridge(inputs, return_type="loss", **({} if as_ids else {"prepend_bos": True}))
    return abs(float(found) + float(np.nanmean(rows[two])))


def main() -> None:
    torch.set_num_threads(1)
    models = written_models("transformers")
    report.compare(
        "logits of ids",
        "logits",
        [(logits(model), model.rounding()) for model in models],
    )
    report.compare(
        "log-probabilities of ids, after enable_compatibility_mode()",
        "nats",
        [(log_probs_after_folding(model), model.rounding()) for model in models],
        "`enable_compatibility_mode()` subtracts a constant from the logits: compare log-probabilities.",
    )
    opened = [model for model in models if "bos" in model.card["roles"]]
    bare = [model for model in models if "bos" not in model.card["roles"]]
    report.compare(
        "loss of a text, prepend_bos=True",
        UNIT,
        [(loss(model, prepend_bos=True), ROUNDING) for model in opened],
    )
    report.compare(
        "loss of a text without special tokens (tokenizer longest_match), prepend_bos=False",
        UNIT,
        [(loss(model, prepend_bos=False), ROUNDING) for model in bare],
        "For a tokenizer without bos, pass `prepend_bos=False`: otherwise GPT-2 refuses a text.",
    )
    report.compare(
        "loss of texts that differ in length, prepend_bos=True",
        UNIT,
        [(loss_of_two(model, as_ids=False), ROUNDING) for model in opened],
    )
    report.known(
        "loss of their ids, padded by to_tokens",
        UNIT,
        [loss_of_two(model, as_ids=True) for model in opened],
        "The loss of a padded batch of ids includes padding: pass texts, which an export's tokenizer pads on the left.",
    )
    rotary = [model for model in opened if model.card["model"]["positions"] == "rotary"]
    report.known(
        "loss of a text by GPT-NeoX, as it is",
        UNIT,
        [loss(model) for model in rotary],
        "With GPT-NeoX, it drops the `<sos>` that the tokenizer puts before a text: pass `prepend_bos=True`, or ids.",
    )
    report.end()


if __name__ == "__main__":
    main()

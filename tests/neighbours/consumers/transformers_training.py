"""Losses of exports: by `labels`, and as `Trainer` logs them, with accumulation, padding, packing and label smoothing.

The truth is the mean over all predictions, from tinylm's logits. A log-probability is off by at most twice as much as logits.
"""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers
from comparing import Report, Written, written_models
from torch.nn import functional as F
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorWithFlattening,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
NATS = "nats per token"
SMOOTHING = 0.1
GRADIENTS = 1e-3  # relative: sums of gradients in float32, in another order
Batch = dict[str, Any]  # names of inputs: rows
Found = Callable[[Written], float]
report = Report("transformers", transformers.__version__)
# A few models: each is trained some ten times.
STOCK = written_models("transformers")
FORMS = {
    "GPT-2": ("transformers", [each for each in STOCK if "-gpt2-" in each.folder.name][:3]),
    "GPT-NeoX": ("transformers", [each for each in STOCK if "-neox-" in each.folder.name][:3]),
    "--format tinylm": ("tinylm", written_models("tinylm")[:4]),
}


def load(model: Written, form: str):
    folder, _ = FORMS[form]
    trust = {"trust_remote_code": True} if folder == "tinylm" else {}
    return AutoModelForCausalLM.from_pretrained(model.folder / folder, **trust).eval()


def lengths(model: Written) -> list[int]:
    """Of the texts that are trained on: beginnings of the rows."""
    rows = model.expected["rows"]
    return [rows.shape[1] - 4 * number for number in range(len(rows))]


def truth(model: Written, smoothing: float = 0.0) -> float:
    """Mean nats of all predictions in the texts; with smoothing, of a target spread over the vocabulary."""
    losses = []
    for number, length in enumerate(lengths(model)):
        logits = torch.from_numpy(model.expected["logits"][number, : length - 1]).double()
        targets = torch.from_numpy(model.expected["rows"][number, 1:length])
        losses.append(F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing))
    return float(torch.cat(losses).mean())


def padded(model: Written, side: str) -> Batch:
    """The texts in rows of equal length; padding has the label -100."""
    rows = model.expected["rows"]
    ids = np.full_like(rows, model.card["roles"].get("pad", 0))
    mask = np.zeros_like(rows)
    for number, length in enumerate(lengths(model)):
        columns = slice(None, length) if side == "right" else slice(-length, None)
        ids[number, columns] = rows[number, :length]
        mask[number, columns] = 1
    labels = np.where(mask == 1, ids, -100)
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def packed(model: Written) -> Batch:
    """As many texts in one row as the context holds; their first tokens have the label -100."""
    half = model.expected["rows"].shape[1] // 2
    ids = torch.from_numpy(model.expected["rows"][:2, :half])
    positions = torch.arange(half).repeat(2)[None]
    labels = ids.clone()
    labels[:, 0] = -100
    return {
        "input_ids": ids.reshape(1, -1),
        "position_ids": positions,
        "labels": labels.reshape(1, -1),
    }


def unpadded(model: Written) -> dict[str, list[list[int]]]:
    """The texts as they are, which are their own labels."""
    rows = zip(model.expected["rows"].tolist(), lengths(model), strict=True)
    texts = [row[:length] for row, length in rows]
    return {"input_ids": texts, "labels": texts}


def truth_of_packed(model: Written) -> float:
    half = model.expected["rows"].shape[1] // 2
    logits = torch.from_numpy(model.expected["logits"][:2, : half - 1]).double()
    targets = torch.from_numpy(model.expected["rows"][:2, 1:half])
    return float(F.cross_entropy(logits.flatten(0, 1), targets.flatten()))


@torch.no_grad()
def loss(model: Written, form: str, batch: Batch, **options: Any) -> float:
    return float(load(model, form)(**batch, **options).loss)


def trained(model: Written, form: str, batch: Batch, **options: Any) -> dict[str, float]:
    """What Trainer logs of one update on all rows. Options other than these are TrainingArguments.

    mark: done to the model before. accumulation: batches in the update. collate: makes a batch of rows.
    texts_at_once: in a batch of evaluation.
    """
    mark: Callable[[Any], None] = options.pop("mark", lambda loaded: None)
    count = options.pop("accumulation", 1)
    collate = options.pop("collate", default_data_collator)
    rows = [
        {name: values[row] for name, values in batch.items()} for row in range(len(batch["labels"]))
    ]
    loaded = load(model, form)
    mark(loaded)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=len(rows) // count,
            per_device_eval_batch_size=options.pop("texts_at_once", len(rows)),
            gradient_accumulation_steps=count,
            max_steps=1,
            learning_rate=0.0,
            max_grad_norm=1e9,  # 0 would log no norm
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            **options,
        )
        trainer = Trainer(
            loaded,
            arguments,
            train_dataset=rows,
            eval_dataset=rows,
            data_collator=collate,
        )
        logged: dict[str, float] = {}
        trainer.log = lambda logs, *_: logged.update(logs)  # instead of printing
        trainer.train()
        logged.update(trainer.evaluate())
    return logged


def bound(model: Written) -> float:
    """Of a mean of log-probabilities, whose sum in float32 has six or more digits."""
    return 2 * model.rounding() + 1e-6 * truth(model)


def compare(compared: str, form: str, found: Found, true: Found = truth) -> None:
    """A line on a loss that is to be tinylm's."""
    pairs = [(abs(found(each) - true(each)), bound(each)) for each in FORMS[form][1]]
    report.compare(f"{compared}, {form}", NATS, pairs)


def known(compared: str, form: str, found: Found, says: str, true: Found = truth) -> None:
    """A line on a loss that is another one."""
    differences = [abs(found(each) - true(each)) for each in FORMS[form][1]]
    report.known(f"{compared}, {form}", NATS, differences, says)


def shifts_labels(loaded) -> None:
    """Tell the Trainer that no label of a first token is scored."""
    loaded.loss_type = "ForCausalLM"


def compare_losses_of_the_model(form: str, is_own: bool) -> None:
    """What `model(**batch)` returns."""
    compare("loss, padded on the right", form, lambda each: loss(each, form, padded(each, "right")))

    def left(each: Written) -> float:
        return loss(each, form, padded(each, "left"))

    def in_one_row(each: Written, **options: bool) -> float:
        return loss(each, form, packed(each), **options)

    if is_own:
        compare("loss, padded on the left", form, left)
        compare("loss, packed texts", form, in_one_row, truth_of_packed)
        return
    known(
        "loss, padded on the left",
        form,
        left,
        "For training, pad on the right: `tokenizer.padding_side = 'right'`. In rows padded on the left, GPT-2 and GPT-NeoX "
        "also score the first token, which they predict from padding.",
    )
    known(
        "loss, packed texts",
        form,
        in_one_row,
        "In `model(**batch)` of GPT-2 and GPT-NeoX, packed texts with `position_ids` see each other unless you pass "
        "`use_cache=False`. Creating a `Trainer` sets it in the model, which changes this loss.",
        truth_of_packed,
    )
    compare(
        "loss, packed texts, use_cache=False",
        form,
        lambda each: in_one_row(each, use_cache=False),
        truth_of_packed,
    )


def compare_losses_of_trainer(form: str, is_own: bool) -> None:
    """What Trainer logs, from four texts in one, two or four batches."""

    def logged(each: Written, count: int, **options: Any) -> float:
        batch = padded(each, "right")
        return trained(each, form, batch, accumulation=count, **options)["loss"]

    if form == "GPT-2":
        known(
            "Trainer's loss",
            form,
            lambda each: logged(each, 1),
            "`Trainer` divides a GPT-2's loss, and so its gradient, by the number of all labels, including those of first "
            "tokens, which are never predicted: set `model.loss_type = 'ForCausalLM'` before you create the `Trainer`. "
            "GPT-NeoX has it already.",
        )
    mark = {} if is_own else {"mark": shifts_labels}
    for count in (1, 2, 4):
        name = f"Trainer's loss, gradient_accumulation_steps={count}"
        compare(name, form, lambda each: logged(each, count, **mark))  # noqa: B023
    compare_bf16(form, mark)
    compare(
        "Trainer's eval_loss",
        form,
        lambda each: trained(each, form, padded(each, "right"), **mark)["eval_loss"],
    )
    compare(
        "Trainer's loss, packed texts",
        form,
        lambda each: trained(each, form, packed(each))["loss"],
        truth_of_packed,
    )
    compare(
        "Trainer's loss, DataCollatorWithFlattening",
        form,
        lambda each: trained(
            each, form, unpadded(each), accumulation=2, collate=DataCollatorWithFlattening()
        )["loss"],
    )
    known(
        "Trainer's eval_loss, one text at a time",
        form,
        lambda each: trained(each, form, padded(each, "right"), texts_at_once=1, **mark)[
            "eval_loss"
        ],
        "`Trainer.evaluate` weights batches by texts, not tokens. If texts differ in length, its loss depends on "
        "`per_device_eval_batch_size`, and the exponential of the loss is not the perplexity that tinylm reports.",
    )
    compare_gradients(form, mark)

    def smoothed(each: Written) -> float:
        return logged(each, 2, label_smoothing_factor=SMOOTHING, **mark)

    def smoothed_truth(each: Written) -> float:
        return truth(each, SMOOTHING)

    if not is_own:
        compare("Trainer's loss, label smoothing", form, smoothed, smoothed_truth)
        return
    known(
        "Trainer's loss, label smoothing",
        form,
        smoothed,
        "`label_smoothing_factor` trains a model of `--format tinylm` to repeat its input, since `Trainer` shifts labels "
        "only for the library's own classes: smooth in a `compute_loss_func`.",
        smoothed_truth,
    )
    known(
        "Trainer's loss, padded on the left",
        form,
        lambda each: trained(each, form, padded(each, "left"))["loss"],
        "In rows padded on the left, `Trainer` also counts the first token, which `--format tinylm` does not score, so its "
        "loss is slightly too small. Pad on the right: `tokenizer.padding_side = 'right'`.",
    )


def compare_bf16(form: str, mark: dict[str, Any]) -> None:
    """Training with products in bfloat16. The bound is that of logits, which is generous for their mean."""
    pairs = []
    for each in FORMS[form][1]:
        logged = trained(each, form, padded(each, "right"), bf16=True, **mark)["loss"]
        pairs.append((abs(logged - truth(each)), 2 * each.rounding("bfloat16")))
    report.compare(f"Trainer's loss, bf16=True, {form}", NATS, pairs)


def compare_gradients(form: str, mark: dict[str, Any]) -> None:
    """The norm of the gradient does not depend on how many batches an update has."""
    pairs = []
    for each in FORMS[form][1]:
        batch = padded(each, "right")
        norms = [trained(each, form, batch, accumulation=n, **mark)["grad_norm"] for n in (1, 4)]
        pairs.append((abs(norms[1] / norms[0] - 1), GRADIENTS))
    report.compare(
        f"Trainer's grad_norm, gradient_accumulation_steps=4 against 1, {form}", "relative", pairs
    )


def labels_of_ends(model: Written) -> tuple[int, int]:
    """(labels that are <eos> in a batch of texts that end with it, texts)."""
    tokenizer = AutoTokenizer.from_pretrained(model.folder / "tinylm", trust_remote_code=True)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    end = model.card["roles"]["eos"]
    rows = [{"input_ids": [*ids, end]} for _, ids, _ in model.card["texts"]]
    return int((collate(rows)["labels"] == end).sum()), len(rows)


def compare_collators() -> None:
    models = [
        each for each in FORMS["--format tinylm"][1] if {"eos", "pad"} <= set(each.card["roles"])
    ]
    own_pad = [each for each in models if each.card["roles"]["eos"] != each.card["roles"]["pad"]]
    pairs = [(abs(found - texts), 0) for found, texts in map(labels_of_ends, own_pad)]
    report.compare("DataCollatorForLanguageModeling: labels that are `<eos>`", "labels", pairs)
    same_pad = [each for each in models if each not in own_pad]
    missing = [texts - found for found, texts in map(labels_of_ends, same_pad)]
    report.known(
        "the same where `<eos>` also pads, tokenizer gpt2",
        "labels",
        missing,
        "With tokenizer gpt2, whose only special token also pads, `DataCollatorForLanguageModeling` gives the end of a text "
        "no label, so a model never learns to end one: set the labels yourself.",
    )


def main() -> None:
    for form in FORMS:
        is_own = form == "--format tinylm"
        compare_losses_of_the_model(form, is_own)
        compare_losses_of_trainer(form, is_own)
    compare_collators()
    report.end()


if __name__ == "__main__":
    main()

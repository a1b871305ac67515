"""lm-evaluation-harness: log-probabilities of whole texts, and of continuations, on exports for transformers."""

import logging
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from comparing import Report, Written, written_models
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

TEXTS = 8  # of a model
ROUNDING = 1e-3  # nats, of a text
UNIT = "nats"
report = Report("lm-eval", version("lm-eval"))
logging.disable(logging.WARNING)


def texts_of(model: Written) -> Iterator[tuple[str, np.ndarray]]:
    """Texts that the context holds, and the log-probability of each token after <sos>."""
    rows = model.expected["text_log_probs"]
    fitting = [index for index, row in enumerate(rows) if np.isfinite(row[0])]
    for index in fitting[:TEXTS]:
        yield model.card["texts"][index][0], rows[index][np.isfinite(rows[index])]


def read(model: Written, **settings: Any) -> HFLM:
    """The export, as the command line's --model hf reads it."""
    folder = str(model.folder / "transformers")
    return HFLM(folder, device="cpu", dtype="float32", batch_size=1, **settings)


def asked(kind: str, *arguments: str) -> Instance:
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def whole_texts(model: Written, **settings: Any) -> float:
    """Largest difference of `loglikelihood_rolling`, of which the word perplexity of a text is made."""
    texts = list(texts_of(model))
    requests = [asked("loglikelihood_rolling", text) for text, _ in texts]
    found = read(model, **settings).loglikelihood_rolling(requests, disable_tqdm=True)
    return max(abs(got - row.sum()) for got, (_, row) in zip(found, texts, strict=True))


def continuations(model: Written, **settings: Any) -> float:
    """Largest difference of `loglikelihood` of the second half of a text's words, after the first half."""
    reader = read(model, **settings)
    requests, wanted = [], []
    for text, row in texts_of(model):
        words = text.split(" ")
        half = len(words) // 2
        start, rest = " ".join(words[:half]), "".join(f" {word}" for word in words[half:])
        if half == 0:
            continue
        count = len(reader.tok_encode(start + rest)) - len(reader.tok_encode(start))
        requests.append(asked("loglikelihood", start, rest))
        wanted.append(row[len(row) - count :].sum())
    found = reader.loglikelihood(requests, disable_tqdm=True)
    return max(abs(got - right) for (got, _), right in zip(found, wanted, strict=True))


def main() -> None:
    torch.set_num_threads(1)
    models = written_models("transformers")
    opened = [model for model in models if "bos" in model.card["roles"]]
    bare = [model for model in models if "bos" not in model.card["roles"]]
    report.compare("loglikelihood", UNIT, [(continuations(model), ROUNDING) for model in opened])
    report.compare(
        "loglikelihood_rolling, add_bos_token=False",
        UNIT,
        [(whole_texts(model, add_bos_token=False), ROUNDING) for model in opened],
    )
    report.known(
        "loglikelihood_rolling, as it is",
        UNIT,
        [whole_texts(model) for model in opened],
        "`loglikelihood_rolling` puts another `<sos>` before the tokenizer's, which it then scores as a word: set "
        "`add_bos_token=False` for this kind of task.",
    )
    report.known(
        "loglikelihood, add_bos_token=False",
        UNIT,
        [continuations(model, add_bos_token=False) for model in opened],
        "With `add_bos_token=False`, `loglikelihood` reads prompts without `<sos>`: leave it out for tasks with a choice of "
        "answers.",
    )
    check_without_special_tokens(bare)
    report.end()


def check_without_special_tokens(models: list[Written]) -> None:
    """Models with tokenizer longest_match."""
    compared = "loglikelihood without special tokens (tokenizer longest_match), prefix_token_id=0"
    says = "For a tokenizer with neither bos nor eos, set `prefix_token_id`: otherwise a TypeError is raised."
    found = [(continuations(model, prefix_token_id=0), ROUNDING) for model in models]
    report.compare(compared, UNIT, found, says)


if __name__ == "__main__":
    main()

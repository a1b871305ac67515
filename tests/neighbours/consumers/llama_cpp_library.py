"""llama.cpp's library: F32 files as `tinylm export` writes them, and what its own quantiser makes of them.

The functions are those of llama.h, by their names there, as llama-cpp-python has them.
"""

import ctypes
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as llama
import numpy as np
from comparing import Report, Written, written_models

F32 = "model-F32.gguf"
F16_ERROR = 0.02  # of the logits' spread
# What matrices are quantised to; card.json has the error that this may cause.
KINDS = {
    "Q8_0": llama.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_K_M": llama.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}
GELU_ERROR = 5e-3  # of the logits' spread: the tanh form of gelu, from a table in binary16
GGML_TYPE_F32 = 0
NO_FLASH_ATTENTION = 0  # LLAMA_FLASH_ATTN_TYPE_DISABLED
report = Report("llama-cpp-python", llama.__version__)


@llama.llama_log_callback
def silent(level: int, text: bytes, data: Any) -> None:
    """Takes the library's messages."""


@contextmanager
def loaded(path: Path) -> Iterator[Any]:
    """A model file, without copies of its weights for the matrix units that not every machine allows (AMX)."""
    settings = llama.llama_model_default_params()
    settings.use_extra_bufts = False
    model = llama.llama_model_load_from_file(str(path).encode(), settings)
    assert model, f"{path}: expected a file that llama.cpp loads"
    yield model
    llama.llama_model_free(model)


@contextmanager
def context_of(model: Any, exact: bool) -> Iterator[Any]:
    """Where one text is computed; exact: keys and values in float32, and no flash attention."""
    settings = llama.llama_context_default_params()
    settings.n_ctx = llama.llama_model_n_ctx_train(model)
    settings.n_threads = settings.n_threads_batch = 1
    if exact:
        settings.flash_attn_type = NO_FLASH_ATTENTION
        settings.type_k = settings.type_v = GGML_TYPE_F32
    context = llama.llama_init_from_model(model, settings)
    yield context
    llama.llama_free(context)


def advance(context: Any, ids: list[int], start: int, vocab: int) -> np.ndarray:
    """Logits after each of these ids, of which the first is at position `start`.  (T, V)"""
    batch = llama.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for place, index in enumerate(ids):
        batch.token[place] = index
        batch.pos[place] = start + place
        batch.n_seq_id[place] = 1
        batch.seq_id[place][0] = 0
        batch.logits[place] = 1
    code = llama.llama_decode(context, batch)
    llama.llama_batch_free(batch)
    assert code == 0, f"llama_decode: expected 0, got {code}"
    values = llama.llama_get_logits(context)
    return np.ctypeslib.as_array(values, (len(ids), vocab)).copy()


def logits_of(path: Path, model: Written, exact: bool = True) -> np.ndarray:
    """Of all rows.  (B, T, V)"""
    vocab = len(model.card["tokens"])
    result = []
    with loaded(path) as file:
        for row in model.expected["rows"].tolist():
            with context_of(file, exact) as context:
                result.append(advance(context, row, 0, vocab))
    return np.array(result)


def quantised(path: Path, kind: int, target: Path) -> Path:
    """A copy of the file in which llama.cpp has quantised the matrices."""
    settings = llama.llama_model_quantize_default_params()
    settings.nthread = 1
    settings.ftype = kind
    names = (str(path).encode(), str(target).encode())
    code = llama.llama_model_quantize(*names, ctypes.byref(settings))
    assert code == 0, f"llama_model_quantize: expected 0, got {code}"
    return target


def share(found: np.ndarray, model: Written) -> float:
    """Root of the mean square difference, as a share of the spread of tinylm's logits."""
    wanted = model.expected["logits"]
    return float(np.sqrt(((found - wanted) ** 2).mean()) / wanted.std(-1).mean())


def greedy(model: Written) -> int:
    """Tokens that differ from tinylm's greedy continuation, computed one by one with llama.cpp's cache."""
    vocab, eos = len(model.card["tokens"]), model.card["roles"].get("eos")
    found = np.full_like(model.expected["greedy"], -1)
    with loaded(model.folder / F32) as file:
        for row, prompt in zip(found, model.expected["prompts"].tolist(), strict=True):
            with context_of(file, exact=True) as context:
                logits = advance(context, prompt, 0, vocab)[-1]
                for place in range(len(row)):
                    logits[model.card["banned"]] = -np.inf
                    row[place] = logits.argmax()
                    if row[place] == eos:
                        break
                    logits = advance(context, [int(row[place])], len(prompt) + place, vocab)[-1]
    return int((found != model.expected["greedy"]).sum())


def tokenized(file: Any, text: str) -> list[int]:
    """The ids of a text, after the token that opens one."""
    encoded = text.encode()
    room = len(encoded) + 8
    ids = (llama.llama_token * room)()
    vocabulary = llama.llama_model_get_vocab(file)
    count = llama.llama_tokenize(vocabulary, encoded, len(encoded), ids, room, True, False)
    return list(ids[:count])


def different_texts(model: Written) -> int:
    """Texts that have other ids, of those that tinylm does not clean."""
    bos = model.card["roles"]["bos"]
    with loaded(model.folder / F32) as file:
        return sum(
            tokenized(file, text) != [bos, *ids]
            for text, ids, decoded in model.card["texts"]
            if text == decoded
        )


def check_logits(models: list[Written]) -> None:
    """Of the file as it is, and quantised."""
    unit = "share of the logits' spread"
    relu = [model for model in models if model.card["model"]["activation"] == "relu"]
    gelu = [model for model in models if model not in relu]
    for name, chosen, bound in (("relu", relu, 2e-4), ("gelu", gelu, GELU_ERROR)):
        report.compare(
            f"logits of F32, {name}, float32 cache, no flash attention",
            unit,
            [(share(logits_of(model.folder / F32, model), model), bound) for model in chosen],
        )
    report.compare(
        "logits of F32, as a context is made by default",
        unit,
        [
            (share(logits_of(model.folder / F32, model, False), model), F16_ERROR)
            for model in models
        ],
    )
    report.compare(
        "logits of F16, by llama_model_quantize",
        unit,
        [(quantised_error(model, llama.LLAMA_FTYPE_MOSTLY_F16), F16_ERROR) for model in models],
    )
    for kind, number in KINDS.items():
        pairs = [
            (quantised_error(model, number), model.card["quantised"][kind]) for model in models
        ]
        report.compare(
            f"logits of {kind}, by llama_model_quantize",
            unit,
            pairs,
            "A matrix stays in F16 if its rows are no multiple of 32 long. If they are no multiple of 256, Q4_K_M takes 5 "
            "bits instead of 4.",
        )


def quantised_error(model: Written, kind: int) -> float:
    """The error of the logits once llama.cpp has quantised the matrices."""
    with tempfile.TemporaryDirectory() as name:
        path = quantised(model.folder / F32, kind, Path(name) / "model.gguf")
        return share(logits_of(path, model), model)


def main() -> None:
    llama.llama_log_set(silent, None)
    models = written_models("gguf")
    check_logits(models)
    report.compare("greedy, 20 tokens", "tokens that differ", [(greedy(m), 0.0) for m in models])
    spelled = [model for model in models if model.card["tokenizer"]["kind"] in ("bpe", "gpt2")]
    report.compare(
        "ids of texts (bpe, gpt2)",
        "texts that differ",
        [(different_texts(m), 0.0) for m in spelled],
    )
    report.end()


if __name__ == "__main__":
    main()

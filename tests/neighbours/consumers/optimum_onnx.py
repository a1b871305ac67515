"""Exports in the last transformers 4, which optimum needs, and as ONNX graphs by optimum.

Writes WORK/<model>/onnx/, a graph with a KV cache and its tokenizer, which javascript_readers.mjs reads.
"""

import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
import transformers
from comparing import BEAMS, Report, Written, written_models
from optimum.onnxruntime import ORTModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.logging.set_verbosity_error()
LOGITS = "logits"
TEXTS = "texts that differ"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
library = Report("transformers", transformers.__version__)
optimum = Report("optimum-onnx", version("optimum-onnx"))


def load(model: Written, form: str = "transformers"):
    trust = {"trust_remote_code": True} if form == "tinylm" else {}
    return AutoModelForCausalLM.from_pretrained(model.folder / form, **trust).eval()


@torch.no_grad()
def distance(loaded, model: Written) -> float:
    """Largest difference of its logits from tinylm's."""
    rows = torch.from_numpy(model.expected["rows"])
    found = loaded(input_ids=rows, attention_mask=torch.ones_like(rows)).logits
    return float((found - torch.from_numpy(model.expected["logits"])).abs().max())


def different_ids(model: Written) -> int:
    """Texts whose ids are not <sos> and tinylm's."""
    tokenizer = AutoTokenizer.from_pretrained(model.folder / "transformers")
    roles = model.card["roles"]
    start = [roles["bos"]] if "bos" in roles else []
    return sum(tokenizer(text).input_ids != start + ids for text, ids, _ in model.card["texts"])


def different_rows(loaded, model: Written, name: str) -> int:
    """Rows that `generate()` continues with other tokens than `greedy` or `beams` of expected.npz."""
    prompts = torch.from_numpy(model.expected["prompts"])
    found = loaded.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=model.card["new_tokens"],
        **(model.beam_search() if name == "beams" else {}),
    )[:, prompts.shape[1] :]
    count = 0
    for row, wanted in zip(found.tolist(), model.expected[name].tolist(), strict=True):
        ids = [index for index in wanted if index >= 0]
        count += row[: len(ids)] != ids
    return count


def saved_and_loaded(model: Written):
    """What loads from the folder that `save_pretrained` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        load(model).save_pretrained(folder)
        return AutoModelForCausalLM.from_pretrained(folder).eval()


def graph(model: Written) -> ORTModelForCausalLM:
    """Write the model as an ONNX graph, and open it."""
    folder = model.folder / "onnx"
    exported = ORTModelForCausalLM.from_pretrained(model.folder / "transformers", export=True)
    exported.save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(model.folder / "transformers" / name, folder)
    return ORTModelForCausalLM.from_pretrained(folder)


def compare_generated(
    report: Report, models: list[Written], load: Callable[[Written], Any]
) -> None:
    """Greedy decoding and beam search."""
    for compared, name in (("greedy, 20 tokens", "greedy"), (f"best of {BEAMS} beams", "beams")):
        pairs = [(different_rows(load(each), each, name), 0) for each in models]
        report.compare(compared, TEXTS, pairs)


def compare_library(models: list[Written]) -> None:
    """What transformers 4 reads itself."""
    for form, chosen in (("transformers", models), ("tinylm", written_models("tinylm"))):
        pairs = [(distance(load(each, form), each), each.rounding()) for each in chosen]
        library.compare(f"logits, --format {form}", LOGITS, pairs)
    pairs = [(distance(saved_and_loaded(each), each), each.rounding()) for each in models]
    library.compare("logits, saved and loaded again", LOGITS, pairs)
    library.compare("ids of drawn texts", TEXTS, [(different_ids(each), 0) for each in models])
    compare_generated(library, models, load)


def compare_graphs(models: list[Written]) -> None:
    """ONNX graphs."""
    graphs = {each.folder: graph(each) for each in models}
    pairs = [(distance(graphs[each.folder], each), each.rounding()) for each in models]
    says = "Install it in an environment of its own: it needs transformers 4, which reads the same exports."
    optimum.compare("logits of ONNX graphs with a KV cache", LOGITS, pairs, says)
    compare_generated(optimum, models, lambda each: graphs[each.folder])


def main() -> None:
    torch.set_num_threads(1)
    models = written_models("transformers")
    compare_library(models)
    compare_graphs(models)
    library.failed |= optimum.failed
    library.end()


if __name__ == "__main__":
    main()

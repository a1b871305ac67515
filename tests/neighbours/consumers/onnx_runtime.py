"""ONNX: exports for transformers that torch.onnx writes as a graph, and the logits that onnxruntime computes by it."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from comparing import Report, Written, written_models
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

MODELS = 2  # of each architecture: to export one takes 10 seconds
report = Report("onnxruntime", onnxruntime.__version__)


class Logits(nn.Module):
    """The part of a model that becomes the graph: ids (B, T) -> logits (B, T, V)."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids, use_cache=False).logits


def exported(model: Written, folder: Path) -> Path:
    """Write a graph for any number of rows and tokens."""
    path = folder / f"{model.folder.name}.onnx"
    tokens = torch.export.Dim("tokens", max=model.card["model"]["context"])
    torch.onnx.export(
        Logits(model.folder / "transformers"),
        (torch.from_numpy(model.expected["prompts"][:2]),),
        path,
        dynamo=True,
        input_names=["ids"],
        output_names=["logits"],
        dynamic_shapes={"ids": {0: torch.export.Dim("rows"), 1: tokens}},
        verbose=False,
    )
    return path


def logits(model: Written, folder: Path) -> float:
    """Largest difference over all rows, which are longer than those of the example."""
    session = onnxruntime.InferenceSession(exported(model, folder))
    (found,) = session.run(["logits"], {"ids": model.expected["rows"]})
    return float(np.abs(found - model.expected["logits"]).max())


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    models = written_models("transformers")
    rotary = [model for model in models if model.card["model"]["positions"] == "rotary"]
    others = [model for model in models if model not in rotary]
    with tempfile.TemporaryDirectory() as name:
        for architecture, chosen in (("GPT-2", others), ("GPT-NeoX", rotary)):
            pairs = [(logits(model, Path(name)), model.rounding()) for model in chosen[:MODELS]]
            report.compare(
                f"logits of {architecture}, torch.onnx.export(dynamo=True) without a cache",
                "logits",
                pairs,
                "Give both dimensions of the ids as `dynamic_shapes`. `dynamo=False` does not work: it lacks aten::diff.",
            )
    report.end()


if __name__ == "__main__":
    main()

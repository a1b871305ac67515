"""SAELens: exports as the models whose activations it trains sparse autoencoders on."""

from importlib.metadata import version

import numpy as np
import torch
from comparing import Report, Written, written_models
from datasets import Dataset
from sae_lens import ActivationsStore
from sae_lens.load_model import HookedProxyLM, load_model

ROWS = 20
report = Report("sae-lens", version("sae-lens"))


def read(model: Written, model_class_name: str = "AutoModelForCausalLM") -> HookedProxyLM:
    return load_model(model_class_name, str(model.folder / "transformers"), device="cpu")


@torch.no_grad()
def logits(model: Written) -> float:
    """Largest difference over all rows."""
    found = read(model)(torch.from_numpy(model.expected["rows"]))
    return float(np.abs(found.numpy() - model.expected["logits"]).max())


def doubled(model: Written) -> int:
    """How often a <sos> follows another in the rows that it cuts from texts."""
    store = ActivationsStore.from_config_multi_hook(
        read(model),
        dataset=Dataset.from_dict({"text": [text for text, _, _ in model.card["texts"]]}),
        hook_names=["lm_head"],
        hook_d_ins={"lm_head": len(model.card["tokens"])},
        streaming=False,
        context_size=model.card["model"]["context"],
        store_batch_size_prompts=ROWS,
    )
    opening = store.get_batch_tokens() == model.card["roles"]["bos"]
    return int((opening[:, 1:] & opening[:, :-1]).sum())


def main() -> None:
    torch.set_num_threads(1)
    models = written_models("transformers")
    report.compare(
        'logits, model_class_name="AutoModelForCausalLM"',
        "logits",
        [(logits(model), model.rounding()) for model in models],
    )
    opened = [model for model in models if "bos" in model.card["roles"]]
    report.compare(
        "rows that ActivationsStore cuts from texts",
        "`<sos>` after another",
        [(doubled(model), 0.0) for model in opened],
    )
    report.raises(
        'model_class_name="HookedTransformer"',
        lambda: read(models[0], "HookedTransformer"),
        ValueError,
        '`model_class_name="HookedTransformer"` cannot load a folder, since SAELens installs TransformerLens 3: set '
        '`"AutoModelForCausalLM"`, whose hooks are named like the modules in transformers.',
    )
    report.end()


if __name__ == "__main__":
    main()

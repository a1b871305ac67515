"""`AutoModel...` and `AutoTokenizer` on exports: logits in every type, saving and loading again, tied weights, ids of texts."""

import shutil
import tempfile
from collections.abc import Callable

import torch
import transformers
from comparing import Report, Written, written_models
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2TokenizerFast,
)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
LOGITS = "logits"
report = Report("transformers", transformers.__version__)
STOCK = written_models("transformers")
neox = [model for model in STOCK if model.card["model"]["positions"] == "rotary"]
gpt2 = [model for model in STOCK if model not in neox]
FORMS = {
    "GPT-2": (gpt2, "transformers"),
    "GPT-NeoX": (neox, "transformers"),
    "--format tinylm": (written_models("tinylm"), "tinylm"),
}


def load(model: Written, form: str, **options):
    """The exported model, in evaluation mode."""
    if form == "tinylm":
        options["trust_remote_code"] = True
    return AutoModelForCausalLM.from_pretrained(model.folder / form, **options).eval()


@torch.no_grad()
def distance(loaded, model: Written) -> float:
    """Largest difference of its logits from tinylm's, with the ids that are new there left out."""
    expected = torch.from_numpy(model.expected["logits"])
    found = loaded(torch.from_numpy(model.expected["rows"])).logits.float()
    return float((found[..., : expected.shape[-1]] - expected).abs().max())


def saved_and_loaded(model: Written, form: str, **options):
    """What loads from the folder that `save_pretrained` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        load(model, form).save_pretrained(folder, **options)
        trust = {"trust_remote_code": True} if form == "tinylm" else {}
        return AutoModelForCausalLM.from_pretrained(folder, **trust).eval()


def compare_logits(
    compared: str,
    form: str,
    change: Callable[[Written, str], torch.nn.Module],
    kind: str = "float32",
    says: str = "",
) -> None:
    """A line on the logits of models that were changed."""
    models, folder = FORMS[form]
    pairs = [(distance(change(each, folder), each), each.rounding(kind)) for each in models]
    report.compare(f"logits, {form}{compared}", LOGITS, pairs, says)


def resized(model: Written, form: str):
    loaded = load(model, form)
    loaded.resize_token_embeddings(len(model.card["tokens"]) + 3)
    return loaded


def compare_all_logits() -> None:
    """Logits in every type, and of models that were saved or changed."""
    for form in FORMS:
        compare_logits("", form, load)
        compare_logits(
            ", dtype=bfloat16",
            form,
            lambda model, folder: load(model, folder, dtype=torch.bfloat16),
            "bfloat16",
        )
        compare_logits(
            ", dtype=float16",
            form,
            lambda model, folder: load(model, folder, dtype=torch.float16),
            "float16",
        )
        compare_logits(
            ", .half() after loading",
            form,
            lambda model, folder: load(model, folder).half(),
            "float16",
        )
        compare_logits(", saved and loaded again", form, saved_and_loaded)
        compare_logits(
            ", saved in many files",
            form,
            lambda model, folder: saved_and_loaded(model, folder, max_shard_size="10KB"),
        )
    for form in ("GPT-2", "GPT-NeoX"):
        compare_logits(
            ", attn_implementation='eager'",
            form,
            lambda model, folder: load(model, folder, attn_implementation="eager"),
        )
        compare_logits(", resize_token_embeddings", form, resized)


def wrongly_tied(model: Written) -> int:
    """1 if input and output weights are one tensor although config.json says no, or the other way round."""
    loaded = load(model, "transformers")
    pointers = {
        loaded.get_input_embeddings().weight.data_ptr(),
        loaded.get_output_embeddings().weight.data_ptr(),
    }
    return int((len(pointers) == 1) != loaded.config.tie_word_embeddings)


def compare_ties() -> None:
    """Input and output weights."""
    report.compare(
        "input and output weights tied as config.json says",
        "models that differ",
        [(wrongly_tied(each), 0) for each in STOCK],
    )


@torch.no_grad()
def distance_without_head(model: Written) -> float:
    """Logits from AutoModel's hidden states and the output weights."""
    hidden = AutoModel.from_pretrained(model.folder / "transformers").eval()(
        torch.from_numpy(model.expected["rows"])
    )
    logits = load(model, "transformers").get_output_embeddings()(hidden.last_hidden_state)
    return float((logits - torch.from_numpy(model.expected["logits"])).abs().max())


def compare_hidden_states() -> None:
    """The model without its output layer."""
    report.compare(
        "AutoModel: hidden states times the output weights",
        LOGITS,
        [(distance_without_head(each), each.rounding()) for each in STOCK],
    )


def check_refusals() -> None:
    """What `--format tinylm` refuses."""
    own = FORMS["--format tinylm"][0][0]
    REFUSED = {
        "AutoModel": (
            ValueError,
            lambda: AutoModel.from_pretrained(own.folder / "tinylm", trust_remote_code=True),
        ),
        "resize_token_embeddings": (
            NotImplementedError,
            lambda: load(own, "tinylm").resize_token_embeddings(9),
        ),
        "gradient_checkpointing_enable": (
            ValueError,
            lambda: load(own, "tinylm").gradient_checkpointing_enable(),
        ),
    }
    for name, (error, call) in REFUSED.items():
        says = f"`{name}` raises {error.__name__} for `--format tinylm`."
        report.raises(f"{name}, --format tinylm", call, error, says)


def different_ids(model: Written, tokenizer) -> int:
    """Texts whose ids are not <sos> and tinylm's."""
    roles = model.card["roles"]
    start = [roles["bos"]] if "bos" in roles else []
    return sum(tokenizer(text).input_ids != start + ids for text, ids, _ in model.card["texts"])


def read(model: Written, reader=AutoTokenizer, **options):
    return reader.from_pretrained(model.folder / "transformers", **options)


def tokenizer_again(model: Written):
    with tempfile.TemporaryDirectory() as folder:
        read(model).save_pretrained(folder)
        return AutoTokenizer.from_pretrained(folder)


TEXTS = "texts that differ"


def compare_ids() -> None:
    """What AutoTokenizer reads."""
    report.compare(
        "ids of drawn texts", TEXTS, [(different_ids(each, read(each)), 0) for each in STOCK]
    )
    report.compare(
        "ids of drawn texts, tokenizer saved and loaded again",
        TEXTS,
        [(different_ids(each, tokenizer_again(each)), 0) for each in STOCK],
    )
    with_start = [each for each in STOCK if "bos" in each.card["roles"]]
    report.known(
        "ids of drawn texts, add_eos_token=True",
        TEXTS,
        [different_ids(each, read(each, add_eos_token=True)) for each in with_start],
        "`AutoTokenizer.from_pretrained(..., add_eos_token=True)` drops `<sos>`: append `tokenizer.eos_token_id` yourself.",
    )


def without_its_config(model: Written):
    """What reads tokenizer.json where only the model's config.json is beside it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("config.json", "tokenizer.json"):
            shutil.copy(model.folder / "transformers" / name, folder)
        return AutoTokenizer.from_pretrained(folder)


def check_other_readers() -> None:
    """Readers that follow another rule."""
    report.known(
        "ids of drawn texts, without tokenizer_config.json",
        TEXTS,
        [different_ids(each, without_its_config(each)) for each in STOCK],
        "Without tokenizer_config.json, `AutoTokenizer` follows the rules of GPT-2 or GPT-NeoX and splits words into letters: "
        "copy it together with tokenizer.json.",
    )
    words = [each for each in STOCK if "words" in each.folder.name]
    report.known(
        "ids of drawn texts, GPT2TokenizerFast of words",
        TEXTS,
        [different_ids(each, read(each, GPT2TokenizerFast)) for each in words],
        "`GPT2TokenizerFast` splits the words of a word tokenizer into letters: use `AutoTokenizer`.",
    )


def main() -> None:
    compare_all_logits()
    compare_ties()
    compare_hidden_states()
    check_refusals()
    compare_ids()
    check_other_readers()
    report.end()


if __name__ == "__main__":
    main()

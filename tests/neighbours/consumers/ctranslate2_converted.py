"""CTranslate2: exports that its converter turns into its own format, then logits, greedy decoding and beam search."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import numpy as np
from comparing import BEAMS, Report, Written, written_models
from ctranslate2.converters import TransformersConverter
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

PATIENCE = 20  # times BEAMS: so many texts may end before the search does
LAYER_NORM_EPS = 1e-5  # of all models there
report = Report("ctranslate2", ctranslate2.__version__)


@dataclass(frozen=True)
class Converted:
    """A model of ours, and the same as CTranslate2 has it."""

    model: Written
    generator: ctranslate2.Generator

    def tokens(self, rows: np.ndarray) -> list[list[str]]:
        """It takes tokens as text, not ids."""
        return [[self.model.card["tokens"][index] for index in row] for row in rows]

    def logits(self) -> float:
        """The largest difference over all rows."""
        found = self.generator.forward_batch(self.tokens(self.model.expected["rows"]))
        return float(np.abs(np.array(found) - self.model.expected["logits"]).max())

    def decoded(self, name: str, with_prompt: bool = False) -> tuple[int, float]:
        """(tokens that are not those of `greedy` or `beams`, the largest difference of the beams' scores).

        with_prompt: let results include the prompt, which is then cut off.
        """
        card, wanted = self.model.card, self.model.expected[name]
        eos = card["roles"].get("eos")
        results = self.generator.generate_batch(
            self.tokens(self.model.expected["prompts"]),
            beam_size=BEAMS if name == "beams" else 1,
            length_penalty=card["length_penalty"],
            patience=PATIENCE,
            max_length=card["new_tokens"],
            suppress_sequences=[[card["tokens"][index]] for index in card["banned"]],
            end_token=[] if eos is None else [eos],
            return_end_token=True,
            include_prompt_in_result=with_prompt,
            return_scores=True,
        )
        found = np.full_like(wanted, -1)
        start = self.model.expected["prompts"].shape[1] if with_prompt else 0
        for row, result in zip(found, results, strict=True):
            new = result.sequences_ids[0][start:]
            row[: len(new)] = new
        scores = np.array([result.scores[0] for result in results])
        off = float(np.abs(scores - self.model.expected["scores"]).max())
        return int((found != wanted).sum()), off


def convert(model: Written, folder: Path) -> Path:
    """Write the model in CTranslate2's format, in float32."""
    target = folder / model.folder.name
    TransformersConverter(str(model.folder / "transformers")).convert(str(target))
    return target


def complete(folder: Path, epsilon: float | None = None) -> None:
    """Write into config.json of a converted model what the converter left out.

    Without special tokens it has null, which is not loaded. Nor is the epsilon of layer norms copied.
    """
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    for name in ("bos_token", "eos_token", "unk_token"):
        config[name] = config[name] or ""
    if epsilon is not None:
        config["layer_norm_epsilon"] = epsilon
    path.write_text(json.dumps(config), "utf-8")


def name_as_before() -> None:
    """Give GPT-NeoX of transformers 5 the names that the converter knows from earlier versions."""
    GPTNeoXConfig.rotary_pct = property(
        lambda config: config.rope_parameters["partial_rotary_factor"]
    )
    GPTNeoXForCausalLM.embed_out = property(lambda model: model.lm_head)


def opened(model: Written, folder: Path) -> Converted:
    """The model of a folder that `convert` wrote."""
    generator = ctranslate2.Generator(str(folder), device="cpu", compute_type="float32")
    return Converted(model, generator)


def epsilon(model: Written) -> float:
    """Of the exported model's layer norms."""
    config = json.loads((model.folder / "transformers/config.json").read_text("utf-8"))
    return config.get("layer_norm_epsilon") or config["layer_norm_eps"]


def is_neox(model: Written) -> bool:
    return model.card["model"]["positions"] == "rotary"


def check_refusals(models: list[Written], folder: Path) -> None:
    """What is not converted, or not loaded, as it is."""
    rotary = next(filter(is_neox, models), None)
    if rotary is not None:
        report.raises(
            "conversion of GPT-NeoX, as it is",
            lambda: convert(rotary, folder),
            AttributeError,
            "The converter refuses GPT-NeoX, since it needs two names that transformers 5 no longer has: [define "
            "them](../how-to/export.md#ctranslate2) first.",
        )
    bare = next((each for each in models if not each.card["roles"] and not is_neox(each)), None)
    if bare is not None:
        report.raises(
            "loading of models without special tokens (tokenizer longest_match), as they are",
            lambda: opened(bare, convert(bare, folder)),
            RuntimeError,
            'A model without special tokens does not load: in the converted config.json, write `""` for '
            "`bos_token`, `eos_token` and `unk_token`.",
        )


def main() -> None:
    models = written_models("transformers")
    with tempfile.TemporaryDirectory() as name:
        check_refusals(models, Path(name) / "refused")
        name_as_before()
        as_it_is, completed = [], []
        for model in models:
            target = convert(model, Path(name))
            complete(target)
            as_it_is.append(opened(model, target))
            complete(target, epsilon(model))
            completed.append(opened(model, target))
        check_logits(as_it_is, completed)
        check_tokens(completed)
    report.end()


def check_logits(as_it_is: list[Converted], completed: list[Converted]) -> None:
    """With the converter's epsilon, and with the export's."""
    for architecture, neox in (("GPT-2", False), ("GPT-NeoX", True)):
        chosen = [each for each in completed if is_neox(each.model) == neox]
        report.compare(
            f"logits of {architecture}, layer_norm_epsilon written into config.json",
            "logits",
            [(each.logits(), each.model.rounding()) for each in chosen],
        )
    other = [each for each in as_it_is if abs(epsilon(each.model) / LAYER_NORM_EPS - 1) > 1e-3]
    report.known(
        "logits of models with another epsilon, as converted",
        "logits",
        [each.logits() for each in other],
        "The converter omits the epsilon of layer norms, so 1e-5 is used: copy it from the export's config.json to "
        "`layer_norm_epsilon` in the converted config.json.",
    )


def check_tokens(converted: list[Converted]) -> None:
    """Greedy decoding and beam search."""
    greedy = [each.decoded("greedy")[0] for each in converted]
    beams = [each.decoded("beams") for each in converted]
    unit = "tokens that differ"
    report.compare("greedy, 20 tokens", unit, [(count, 0.0) for count in greedy])
    report.compare(
        f"{BEAMS} beams, 20 tokens, patience={PATIENCE}",
        unit,
        [(count, 0.0) for count, _ in beams],
        "Set a large `patience`: by default, beam search stops once as many texts have ended as there are beams, even if "
        "another would score better.",
    )
    report.known(
        "greedy, include_prompt_in_result as by default",
        unit,
        [each.decoded("greedy", with_prompt=True)[0] for each in converted],
        "By default, `generate_batch` includes the prompt in its results and counts it towards `max_length` and both "
        "penalties: set `include_prompt_in_result=False`.",
    )
    report.known(
        f"scores of {BEAMS} beams with suppress_sequences",
        "nats, divided by length ** length_penalty",
        [score for _, score in beams],
        "With `suppress_sequences`, scores are log-probabilities among the remaining tokens; in tinylm, among all.",
    )


if __name__ == "__main__":
    main()

"""`generate()` on exports: greedy decoding, beams, caches, batches padded on the left, and what sampling draws from."""

import numpy as np
import torch
import transformers
from comparing import BEAMS, Report, Written, written_models
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
LOGITS = "logits"
TOKENS = "texts that differ"
DRAWS = 2000  # for each prompt
report = Report("transformers", transformers.__version__)
STOCK = written_models("transformers")
FORMS = {
    "GPT-2": ("transformers", [each for each in STOCK if "-gpt2-" in each.folder.name]),
    "GPT-NeoX": ("transformers", [each for each in STOCK if "-neox-" in each.folder.name]),
    "--format tinylm": ("tinylm", written_models("tinylm")),
}


def load(model: Written, form: str):
    trust = {"trust_remote_code": True} if form == "tinylm" else {}
    return AutoModelForCausalLM.from_pretrained(model.folder / form, **trust).eval()


def generated(loaded, model: Written, prompts: torch.Tensor, **options):
    """What generate() returns for the prompts (B, P), by default the likeliest tokens."""
    options = {
        "attention_mask": torch.ones_like(prompts),
        "do_sample": False,
        "repetition_penalty": 1.0,
        "max_new_tokens": model.card["new_tokens"],
        "return_dict_in_generate": True,
        "output_logits": True,
    } | options
    return loaded.generate(prompts, **options)


def new_ids(model: Written, sequences: torch.Tensor, start: int) -> list[list[int]]:
    """The new tokens of each row, up to and with <eos>."""
    end = model.card["roles"].get("eos")
    rows = sequences[:, start:].tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def different_rows(model: Written, sequences: torch.Tensor, name: str) -> int:
    """Rows whose new tokens are not those of expected.npz."""
    expected = [[index for index in row if index >= 0] for row in model.expected[name].tolist()]
    found = new_ids(model, sequences, model.expected["prompts"].shape[1])
    return sum(one != other for one, other in zip(found, expected, strict=True))


def compare_ids(compared: str, form: str, name: str, **options) -> None:
    folder, models = FORMS[form]
    pairs = []
    for each in models:
        prompts = torch.from_numpy(each.expected["prompts"])
        result = generated(load(each, folder), each, prompts, **options)
        pairs.append((different_rows(each, result.sequences, name), 0))
    report.compare(f"{compared}, {form}", TOKENS, pairs)


def compare_beams(form: str) -> None:
    folder, models = FORMS[form]
    pairs = []
    for each in models:
        prompts = torch.from_numpy(each.expected["prompts"])
        result = generated(load(each, folder), each, prompts, **each.beam_search())
        pairs.append((different_rows(each, result.sequences, "beams"), 0))
    report.compare(
        f"best of {BEAMS} beams, {form}",
        TOKENS,
        pairs,
        "For tinylm's beam search, use the call of `generate()` that `tinylm export` prints.",
    )


def compare_greedy_and_beams() -> None:
    """Greedy decoding and beam search, with each kind of cache."""
    for form in FORMS:
        compare_ids("greedy, 20 tokens", form, "greedy")
        compare_ids("greedy, use_cache=False", form, "greedy", use_cache=False)
        compare_beams(form)
    for form in ("GPT-2", "GPT-NeoX"):
        compare_ids("greedy, static cache", form, "greedy", cache_implementation="static")
        compare_ids("greedy, prompts in parts of 4 tokens", form, "greedy", prefill_chunk_size=4)


def scores(model: Written) -> tuple[float, float]:
    """(difference of the beams' scores, its bound: each token's log-probability has that of the logits, twice)."""
    prompts = torch.from_numpy(model.expected["prompts"])
    options = {**model.beam_search(), "output_scores": True}
    result = generated(load(model, "transformers"), model, prompts, **options)
    difference = np.abs(result.sequences_scores.numpy() - model.expected["scores"]).max()
    return float(difference), 2 * model.rounding() * model.card["new_tokens"]


def compare_scores() -> None:
    """The scores of beam search."""
    report.compare(f"scores of the best of {BEAMS} beams", "nats", [scores(each) for each in STOCK])


def looked_up(model: Written) -> int:
    """Rows that differ if tokens are proposed from the text so far; one prompt at a time."""
    loaded = load(model, "transformers")
    end = model.card["roles"].get("eos")
    count = 0
    for prompt, expected in zip(model.expected["prompts"], model.expected["greedy"], strict=True):
        result = generated(
            loaded, model, torch.from_numpy(prompt[None]), prompt_lookup_num_tokens=3
        )
        found = result.sequences[0, len(prompt) :].tolist()
        found = found[: found.index(end) + 1] if end in found else found
        count += found != [index for index in expected.tolist() if index >= 0]
    return count


def compare_lookup() -> None:
    """Greedy decoding that proposes tokens from the text so far."""
    report.compare(
        "greedy, prompt_lookup_num_tokens=3", TOKENS, [(looked_up(each), 0) for each in STOCK]
    )


def left_padded(model: Written) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """(ids, mask, lengths): beginnings of the rows of different lengths, with the padding before them."""
    rows = model.expected["rows"]
    pad = model.card["roles"].get("pad", 0)
    lengths = [rows.shape[1] - 3 * number for number in range(len(rows))]
    ids = np.full_like(rows, pad)
    mask = np.zeros_like(rows)
    for number, length in enumerate(lengths):
        ids[number, -length:] = rows[number, :length]
        mask[number, -length:] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask), lengths


def in_a_padded_batch(model: Written, folder: str) -> tuple[float, int]:
    """(difference of the first logits that generate() computes, rows that differ from those of a prompt alone)."""
    loaded = load(model, folder)
    ids, mask, lengths = left_padded(model)
    few = {"max_new_tokens": 10}
    result = generated(loaded, model, ids, attention_mask=mask, **few)
    found = new_ids(model, result.sequences, ids.shape[1])
    largest, count = 0.0, 0
    for number, length in enumerate(lengths):
        exact = model.expected["logits"][number, length - 1]
        largest = max(largest, float(np.abs(result.logits[0][number].numpy() - exact).max()))
        alone = torch.from_numpy(model.expected["rows"][number : number + 1, :length])
        single = generated(loaded, model, alone, **few)
        count += new_ids(model, single.sequences, length)[0] != found[number]
    return largest, count


def compare_padded_batches() -> None:
    """Batches whose texts differ in length."""
    for form, (folder, models) in FORMS.items():
        found = [in_a_padded_batch(each, folder) for each in models]
        report.compare(
            f"generate() of a batch padded on the left, {form}",
            LOGITS,
            [(largest, each.rounding()) for (largest, _), each in zip(found, models, strict=True)],
        )
        report.compare(
            f"texts of that batch, against each prompt alone, {form}",
            TOKENS,
            [(count, 0) for _, count in found],
        )


@torch.no_grad()
def forward_of_padded(model: Written, folder: str, with_positions: bool) -> float:
    """Difference of the last logits that the model computes of a batch padded on the left."""
    ids, mask, lengths = left_padded(model)
    positions = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if with_positions else {}
    logits = load(model, folder)(ids, attention_mask=mask, **positions).logits[:, -1].numpy()
    rows = range(len(lengths))
    exact = model.expected["logits"][rows, [length - 1 for length in lengths]]
    return float(np.abs(logits - exact).max())


def compare_padded_forward() -> None:
    """One call of the model on such a batch."""
    for form, (folder, models) in FORMS.items():
        if form == "GPT-2":
            with_table = [each for each in models if each.card["model"]["positions"] != "none"]
            report.known(
                "model(ids, mask) of a batch padded on the left, GPT-2",
                LOGITS,
                [forward_of_padded(each, folder, with_positions=False) for each in with_table],
                "`model(**tokenizer(texts, padding=True))` of a GPT-2 starts counting positions at the padding: pass "
                "`position_ids=(mask.cumsum(-1) - 1).clamp(min=0)`, as `generate()` does, or pad on the right.",
            )
        else:
            pairs = [
                (forward_of_padded(each, folder, with_positions=False), each.rounding())
                for each in models
            ]
            report.compare(f"model(ids, mask) of a batch padded on the left, {form}", LOGITS, pairs)
        pairs = [
            (forward_of_padded(each, folder, with_positions=True), each.rounding())
            for each in models
        ]
        report.compare(
            f"model(ids, mask, position_ids) of a batch padded on the left, {form}", LOGITS, pairs
        )


def first_distribution(model: Written, folder: str) -> np.ndarray:
    """Probabilities from which generate() draws the first token, by generation_config.json.  (B, V)"""
    result = generated(
        load(model, folder),
        model,
        torch.from_numpy(model.expected["prompts"]),
        do_sample=True,
        max_new_tokens=1,
        output_scores=True,
    )
    return result.scores[0].double().softmax(-1).numpy()


def compare_sampling(form: str) -> None:
    """A probability differs by at most twice as much as logits do, divided by the temperature."""
    folder, models = FORMS[form]
    kept, probabilities = [], []
    for each in models:
        found, exact = first_distribution(each, folder), each.expected["probabilities"]
        kept.append((int(((found > 0) != (exact > 0)).sum()), 0))
        bound = 2 * each.rounding() / each.card["decode"]["temperature"]
        probabilities.append((float(np.abs(found - exact).max()), bound))
    report.compare(f"tokens that sampling may draw, {form}", "tokens that differ", kept)
    report.compare(f"probabilities of these, {form}", "probability", probabilities)


def surprise(model: Written) -> float:
    """How far the frequencies of many draws with one seed are from tinylm's probabilities, in standard errors."""
    torch.manual_seed(1)
    prompts = torch.from_numpy(model.expected["prompts"])
    options = {"do_sample": True, "max_new_tokens": 1, "num_return_sequences": DRAWS}
    drawn = generated(load(model, "transformers"), model, prompts, **options).sequences[:, -1]
    largest = 0.0
    for row, exact in zip(drawn.reshape(-1, DRAWS), model.expected["probabilities"], strict=True):
        shares = np.bincount(row.numpy(), minlength=len(exact)) / DRAWS
        likely = exact * DRAWS > 100  # others are too rare for a normal distribution
        errors = np.sqrt(exact * (1 - exact) / DRAWS)[likely]
        differences = np.abs(shares - exact)[likely]
        if exact.max() < 1:
            largest = max(largest, float((differences / errors).max(initial=0.0)))
    return largest


def draws_that_differ(model: Written) -> int:
    """Rows that differ between two runs with one seed."""
    loaded, prompts = load(model, "transformers"), torch.from_numpy(model.expected["prompts"])
    runs = []
    for _ in range(2):
        transformers.set_seed(7)
        runs.append(generated(loaded, model, prompts, do_sample=True).sequences)
    return int((runs[0] != runs[1]).any(-1).sum())


def compare_draws() -> None:
    """Sampling: what may be drawn, how often, and again with the same seed."""
    for form in FORMS:
        compare_sampling(form)
    report.compare(
        f"frequencies of {DRAWS} draws",
        "standard errors",
        [(surprise(each), 5.0) for each in STOCK],
    )
    report.compare(
        "two runs of sampling with one seed",
        TOKENS,
        [(draws_that_differ(each), 0) for each in STOCK],
    )


def past_the_context(model: Written) -> int:
    """New tokens after those that the context holds."""
    prompts = torch.from_numpy(model.expected["prompts"])
    context = model.card["model"]["context"]
    options = {"max_new_tokens": context, "eos_token_id": None}
    result = generated(load(model, "transformers"), model, prompts, **options)
    return result.sequences.shape[1] - context


def check_the_context() -> None:
    """Texts longer than the context."""
    _, gpt2 = FORMS["GPT-2"]
    report.raises(
        "max_new_tokens past the context, GPT-2",
        lambda: past_the_context(gpt2[0]),
        IndexError,
        "If `max_new_tokens` goes past the context, GPT-2 raises IndexError: leave it out, and texts stop at the context.",
    )
    _, neox = FORMS["GPT-NeoX"]
    report.known(
        "max_new_tokens past the context, GPT-NeoX",
        "tokens past the context",
        [past_the_context(each) for each in neox],
        "If `max_new_tokens` goes past the context, GPT-NeoX continues at positions that it was not trained for: leave it out, "
        "and texts stop at the context.",
    )


def stopped_at_a_word(model: Written) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model.folder / "transformers")
    prompts = torch.from_numpy(model.expected["prompts"])
    generated(load(model, "transformers"), model, prompts, stop_strings=["a"], tokenizer=tokenizer)


def check_stop_strings() -> None:
    """`stop_strings` with a word tokenizer."""
    words = next(each for each in STOCK if "words" in each.folder.name)
    report.raises(
        "stop_strings with a word tokenizer",
        lambda: stopped_at_a_word(words),
        ValueError,
        "`stop_strings` raises ValueError for a word tokenizer: give the word's id as `eos_token_id`.",
    )


def main() -> None:
    compare_greedy_and_beams()
    compare_scores()
    compare_lookup()
    compare_padded_batches()
    compare_padded_forward()
    compare_draws()
    check_the_context()
    check_stop_strings()
    report.end()


if __name__ == "__main__":
    main()

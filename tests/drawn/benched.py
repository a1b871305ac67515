"""Properties of the benches, and of every metric, plot and picture: each number is that of its source."""

import dataclasses
import itertools
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import tinylm
from tests.drawn.drawing import DrawnRun
from tests.drawn.judged import judged_plainly, wilson
from tests.drawn.measured import (
    Prompt,
    banned,
    distinct,
    nats_in_windows,
    repeated,
    start_prompts,
    without_repeats,
)
from tests.drawn.plain_files import LEAST, Run, differs
from tests.drawn.plain_model import PlainModel
from tests.drawn.properties import holds
from tests.drawn.running import Refused, in_folder, run_stage
from tests.drawn.trained import SIX_DIGITS, first_weights
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError, read_section
from tinylm.base.seeding import derive_seed
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.model.checkpoint import load_model
from tinylm.report.pictures import PICTURES
from tinylm.report.values import template_values
from tinylm.run.finished_run import read_run
from tinylm.text.bleu import Bleu
from tinylm.text.words import spaced
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore

PROMPT_TOKENS = 5  # of each prompt of a bench
JUDGED = 50  # prompts whose continuations the generator judges
GRADIENTS_APART = 1e-3  # relative to the largest entry: two sums of the same numbers in float32
HELD_OUT_ROWS = 96  # on which the sweep validates, rounded up to whole mini-batches
ACCUM_CONTEXT = 32  # of the sweep, where rows are stories


def continued(run: Run, model: Any, method: str, prompts: list[Prompt]) -> list[list[int]]:
    """The new ids of a method of beam_bench, up to the end of each text."""
    settings = run.params["beam_bench"]
    new_tokens = settings["new_tokens"]
    decoder = Decoder(
        model=model,
        eos_id=run.tokenizer.eos_id,
        banned=banned(run),
        slide=run.params["cache"]["slide"],
    )
    starts = [ids for _, ids, _ in prompts]
    if method.startswith("beam "):
        width = int(method.split()[1])
        beams = BeamSettings(width=width, length_penalty=settings["length_penalty"])
        found = beam_search(decoder, starts, beams, max_new_tokens=new_tokens)
        return [best.ids for best, *_ in found]
    decode = read_section(run.params, "decode", DecodeSettings, "params.yaml")
    decode = decode.greedy() if method == "greedy" else decode
    return [text.ids for text in generate(decoder, starts, decode, max_new_tokens=new_tokens)]


def as_likely(
    run: Run, weights: Any, prompt: list[int], text: list[int], written: str
) -> list[int]:
    """The ids of a written text if it is another one, but as likely: rounding then decides between the two."""
    other = run.tokenizer.encode(written)
    nats, number, allowed = nats_in_windows(run, weights, prompt + text, len(prompt))
    of_other = nats_in_windows(run, weights, prompt + other, len(prompt))
    is_tie = of_other[1] == number and abs(of_other[0] - nats) <= allowed + of_other[2]
    return other if is_tie else text


@holds("measured")
def methods_of_decoding_are_judged_by_their_texts(drawn: DrawnRun, folder: Path) -> None:
    """outputs.csv, and of each method BLEU, log-probability, variety and the share of possible texts."""
    run = Run(folder)
    settings = run.params["beam_bench"]
    figures = run.json("data/figures/beam_bench")
    methods = ["sampling", "greedy", *(f"beam {width}" for width in settings["widths"])]
    methods = list(dict.fromkeys(methods))
    assert list(figures["methods"]) == methods, f"methods: {list(figures['methods'])}"
    count, new = settings["prompts"], settings["new_tokens"]
    prompts = without_repeats(start_prompts(run, count, PROMPT_TOKENS, new))
    assert (figures["prompts"], figures["new_tokens"]) == (len(prompts), new), f"{figures}"
    judged = without_repeats(start_prompts(run, JUDGED, PROMPT_TOKENS, new))
    judged = list({tuple(prompt[1]): prompt for prompt in judged}.values())
    model, _ = load_model(folder / "models")
    weights = run.weights()
    table = run.table("data/beam_bench/outputs")
    tokenizer = run.tokenizer
    for method in methods:
        rows = table[table["method"] == method].to_dict("records")[: len(prompts)]
        texts = continued(run, model, method, prompts)
        total = tokens = tolerance = 0.0
        for row, (_, ids, reference), text in zip(rows, prompts, texts, strict=True):
            if method == "greedy" or method.startswith("beam "):
                text = as_likely(run, weights, ids, text, row["text"])
            parts = {"prompt": ids, "reference": reference, "text": text}
            for key, part in parts.items():
                wanted = tokenizer.decode(part)
                assert row[key] == wanted, f"{method}, {key}: expected {wanted!r}, got {row[key]!r}"
            nats, number, allowed = nats_in_windows(run, weights, ids + text, len(ids))
            score = -nats / max(number, 1) ** settings["length_penalty"]
            got = [row["log_prob"], row["score"]]
            problem = differs(
                f"{method}: log_prob, score", got, [-nats, score], SIX_DIGITS, allowed
            )
            assert not problem, problem
            total, tokens, tolerance = total - nats, tokens + number, tolerance + allowed
        found = figures["methods"][method]
        written = [row["text"] for row in rows]
        words = [spaced(text).split() for text in written]
        bleu = Bleu().compute(predictions=written, references=[row["reference"] for row in rows])
        got = [found[key] for key in ("bleu4", "distinct2", "repeated_4grams")]
        wanted = [bleu["bleu4"], distinct(words, 2), repeated(words, 4)]
        assert not (problem := differs(f"{method}: bleu4, distinct2, repeated", got, wanted)), (
            problem
        )
        per_token = total / max(tokens, 1)
        got = found["log_prob_per_token"]
        problem = differs(
            f"{method}: log_prob_per_token", got, per_token, 1e-6, tolerance / max(tokens, 1)
        )
        assert not problem, problem
        assert ("judged" in found) == (run.world is not None), f"{method}: {found}"
        if "judged" in found:
            read = []
            pieces = run.params["vocab"]["tokenizer"] != "words"
            for (_, ids, _), text in zip(
                judged, continued(run, model, method, judged), strict=True
            ):
                is_ended = bool(text) and text[-1] == tokenizer.eos_id
                prompt, written = tokenizer.decode(ids), tokenizer.decode(text)
                read.append(judged_plainly(prompt, written, is_ended, run.world, pieces))
            known = [each for each in read if each is not None]
            assert found["judged"] == len(known), f"judged: {found['judged']}, not {len(known)}"
            wanted = wilson(sum(error is None for _, error in known), len(known)) if known else None
            assert (found.get("possible") is None) == (wanted is None)
            for end in wanted or {}:
                problem = differs(
                    f"{method}: possible", found["possible"][end], wanted[end], 1e-6, 1e-6
                )
                assert not problem, problem


@holds("measured")
def greedy_decoding_takes_the_likeliest_token(drawn: DrawnRun, folder: Path) -> None:
    """A loaded model has the settings of params.yaml, and each of its greedy tokens the largest logit.

    Past the context its windows are those of cache.slide.
    """
    run = Run(folder)
    with in_folder(folder):
        model = tinylm.load()
        decode = read_section(run.params, "decode", DecodeSettings, "params.yaml")
        got = (model.slide, model.settings, model.length_penalty)
        wanted = (run.params["cache"]["slide"], decode, run.params["beam_bench"]["length_penalty"])
        assert got == wanted, f"tinylm.load: expected {wanted}, got {got}"
        new = run.context + 6 if drawn.number % 2 else 6
        start = run.texts("train")[drawn.number % len(run.texts("train"))][:12].strip()
        if not run.tokenizer.encode(start):
            return
        text = model.generate(
            start, max_tokens=new, log_probs=True, temperature=0, repetition_penalty=1
        )
    ids = run.tokenizer.encode_prompt(start, "start")
    weights = run.weights()
    step = run.context // 2 if run.params["cache"]["slide"] == "half" else 1
    allowed_ids = np.setdiff1d(np.arange(len(run.tokenizer)), banned(run))
    for token, log_prob in zip(text.new_ids, text.log_probs or [], strict=True):
        first = max(-(-(len(ids) - run.context) // step) * step, 0)
        row = torch.tensor([ids[first:]])
        log_probs = PlainModel(weights, run.params["model"])(row)[0, -1].log_softmax(-1)
        rough = PlainModel(weights, run.params["model"], torch.float32)(row)[0, -1].log_softmax(-1)
        error = 20 * float((rough - log_probs).abs().max()) + 1e-5 * float(
            1 + log_probs.abs().max()
        )
        largest = float(log_probs[allowed_ids].max())
        problem = differs(
            f"token {len(ids)}: its log-probability", log_probs[token], largest, 0, error
        )
        assert not problem, problem
        problem = differs(f"token {len(ids)}: log_prob", log_prob, log_probs[token], 0, error)
        assert not problem, problem
        ids = [*ids, token]


@holds("measured")
def the_cache_leaves_all_ids_as_they_are(drawn: DrawnRun, folder: Path) -> None:
    """kv_bench.json: every length was compared, and ids differ at ties alone.

    One run of each way is measured at every length, so the first token and the ties are the same.
    """
    run = Run(folder)
    settings = run.params["kv_bench"]
    found = run.json("data/figures/kv_bench")
    assert found["batch"] == settings["batch"], f"batch: {found['batch']}"
    assert found["prompt_tokens"] == PROMPT_TOKENS
    assert found["compared"] == settings["lengths"], f"compared: {found['compared']}"
    assert found["same_ids"] == (not found["ties"])
    assert all(tie["gap_nats"] <= 1e-4 for tie in found["ties"]), f"ties: {found['ties']}"
    ways = list(itertools.product(settings["lengths"], (False, True)))
    rows = run.json("data/times/kv_bench")["settings"]
    assert [(row["new_tokens"], row["cache"]) for row in rows] == ways, "times: settings"

    ties = {length: [] for length in settings["lengths"]}
    for tie in found["ties"]:
        ties[tie["new_tokens"]].append({**tie, "new_tokens": None})
    of_longest = ties[max(ties)]
    for length, of_length in ties.items():
        wanted = [tie for tie in of_longest if tie["position"] < length]
        assert of_length == wanted, f"ties at {length}: expected {wanted}, got {of_length}"
    for cache in (False, True):
        in_order = sorted(
            (row for row in rows if row["cache"] == cache), key=lambda row: row["new_tokens"]
        )
        first = {row["first_token_s"] for row in in_order}
        assert len(first) == 1, f"cache {cache}: seconds to the first token {first}"
        seconds = [row["new_tokens"] / row["low_tokens_per_s"] for row in in_order]
        assert seconds == sorted(seconds), f"cache {cache}: slowest seconds {seconds}"


@holds("measured")
def recomputation_changes_no_loss_and_no_weight(drawn: DrawnRun, folder: Path) -> None:
    """ckpt_bench.json, and both ways in its times."""
    run = Run(folder)
    found = run.json("data/figures/ckpt_bench")
    assert found == {"same_losses": True, "same_weights": True}, f"ckpt_bench.json: {found}"
    rows = run.json("data/times/ckpt_bench")["settings"]
    assert [row["recompute"] for row in rows] == [False, True], "times: settings"
    for stage in ("ckpt_bench", "kv_bench"):
        shares = run.json(f"data/times/{stage}")["profile"]["shares"]
        assert math.isclose(sum(shares.values()), 1, rel_tol=1e-3), f"{stage}: shares {shares}"


@holds("measured")
def accumulation_trains_on_the_same_mini_batches(drawn: DrawnRun, folder: Path) -> None:
    """accum_sweep.json and its three curves; the first loss of each setting by the plain model."""
    run = Run(folder)
    sweep, train = run.params["accum_sweep"], run.params["train"]
    found = run.json("data/figures/accum_sweep")
    context = run.context
    if train["layout"] == "stories":
        context = min(context, ACCUM_CONTEXT)
    store = TokenStore(folder / "data/tokens", "train")
    if sweep["stories"] is not None and sweep["stories"] < len(store):
        store.offsets = store.offsets[: sweep["stories"] + 1]
        store.ids = store.ids[: store.offsets[-1]]
    order = derive_seed(train["seed"], "order")
    batches = TrainBatches(
        store, train["layout"], sweep["batch_size"], context, run.tokenizer.pad_id, order
    )
    largest = max(sweep["settings"])
    ends = [0]  # tokens after each update of the largest setting
    while ends[-1] <= sweep["tokens"]:
        first = largest * (len(ends) - 1)
        ends.append(ends[-1] + sum(batches.batch(first + n).tokens for n in range(largest)))
    updates = len(ends) - 2
    assert found["budget_tokens"] == ends[updates], (
        f"budget: {found['budget_tokens']}, not {ends[updates]}"
    )
    assert found["equal_updates"] == updates, (
        f"equal_updates: {found['equal_updates']}, not {updates}"
    )
    assert found["row_tokens"] == context
    difference = found["gradient_difference"]
    is_calm = run.params["model"]["norm_eps"] >= 1e-5  # a smaller one lets norms amplify rounding
    if difference is not None and is_calm:
        assert 0 <= difference < GRADIENTS_APART, f"gradients: {difference}"
    numbers = sorted(set(sweep["settings"]))
    assert list(found["settings"]) == [str(number) for number in numbers], f"{found['settings']}"
    run.params["model"]["context"] = context
    weights = first_weights(run)
    precision = run.json("data/figures/train")["precision"]
    has_prompt = bool(start_prompts(run, 50, PROMPT_TOKENS, 25))
    for number in numbers:
        row = found["settings"][str(number)]
        assert row["updates"] == updates * largest // number, f"accumulation {number}: {row}"
        assert (row["bleu"] is not None) == has_prompt, f"accumulation {number}: bleu {row['bleu']}"
        series = f"accumulation {number}"
        curves = {}
        for axis in ("micro_step", "update", "tokens"):
            curves[axis] = run.curve(f"accum_{axis.removesuffix('s')}s", series, axis)
        places = np.arange(1, row["updates"] + 1)
        tokens = np.cumsum([batches.batch(n).tokens for n in range(updates * largest)])
        wanted = {
            "micro_step": places * number,
            "update": places,
            "tokens": tokens[number - 1 :: number],
        }
        for axis, curve in curves.items():
            assert curve[:, 0].tolist() == wanted[axis].tolist(), f"{series}: axis {axis}"
            assert curve[:, 1].tolist() == curves["update"][:, 1].tolist(), (
                f"{series}: {axis} differs"
            )
        if run.params["model"]["dropout"]:
            continue
        nats = scored = tolerance = 0.0
        for n in range(number):
            batch = batches.batch(n)
            both = []
            for dtype in (torch.float64, torch.float32):
                is_rough = dtype == torch.float32 and precision == "bf16"
                with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_rough):
                    logits = PlainModel(weights, run.params["model"], dtype)(batch.inputs)
                losses = -logits.double().log_softmax(-1)
                chosen = losses.gather(-1, batch.targets.clamp(min=0)[..., None])[..., 0]
                both.append(float((chosen * (batch.targets >= 0)).sum()))
            nats, scored = nats + both[0], scored + batch.tokens
            tolerance += 20 * abs(both[1] - both[0])
        allowed = (tolerance + LEAST[precision] * (nats + scored)) / scored
        got = curves["update"][0, 1]
        problem = differs(f"{series}: its first loss", got, nats / scored, SIX_DIGITS, allowed)
        assert not problem, problem


@holds("measured")
def accumulation_ends_with_the_losses_of_stage_train(drawn: DrawnRun, folder: Path) -> None:
    """Stage train with the settings of one entry of the sweep ends with the same held-out losses."""
    run = Run(folder)
    sweep, train = run.params["accum_sweep"], run.params["train"]
    figures = run.json("data/figures/accum_sweep")
    updates, context = figures["equal_updates"], figures["row_tokens"]
    run.context = context
    batches = -(-len(run.rows("held_out", run.layout)) // sweep["batch_size"])
    has_all_stories = sweep["stories"] is None or sweep["stories"] >= len(run.stories("train"))
    if not has_all_stories or batches > -(-HELD_OUT_ROWS // sweep["batch_size"]):
        return  # the sweep trains on fewer stories, or validates on fewer rows
    run.params["model"]["context"] = context
    run.params["evaluate"]["prompt_tokens"] = 1  # else it may not fit the shorter context
    run.params["runtime"]["threads"] = 1
    same = {"batch_size": sweep["batch_size"], "tokens": figures["budget_tokens"], "epochs": None}
    same |= {"validate_every": updates, "patience": None, "keep_epochs": []}
    same |= {"unknown": 0.0, "processes": 1}
    for number in sorted(set(sweep["settings"])):
        run.params["train"] = train | same | {"accumulation": number}
        losses = held_out_losses_of_training(run)
        found = figures["settings"][str(number)]
        got = [found[f"held_out_loss_at_equal_{what}"] for what in ("updates", "tokens")]
        wanted = [losses[updates], losses[max(losses)]]
        problem = differs(f"accumulation {number}: held-out losses", got, wanted, SIX_DIGITS)
        assert not problem, problem


def held_out_losses_of_training(run: Run) -> dict[int, float]:
    """{update: held-out loss} of stage train with the parameters of `run`, in a copy of its folder."""
    with tempfile.TemporaryDirectory() as name:
        copied = Path(name) / "run"
        left_out = shutil.ignore_patterns("models", "report", "plots", ".dvc", "runs")
        shutil.copytree(run.folder, copied, symlinks=True, ignore=left_out)
        (copied / "params.yaml").write_text(yaml.safe_dump(run.params), encoding="utf-8")
        with in_folder(copied):
            try:
                run_stage("train")
            except (CommandFailed, InputError) as error:
                raise Refused(str(error)) from error  # weights that have diverged after all updates
        curve = Run(copied).curve("loss", "held-out")
    return {int(update): loss for update, _, loss in curve}


def pairs_of_metrics(run: Run) -> dict[str, dict[str, Any]]:
    """What each file of metrics/ holds, taken from figures and times."""
    figures = {
        path.stem: run.json(f"data/figures/{path.stem}")
        for path in files(run, "data/figures", ".json")
    }
    times = {
        path.stem: run.json(f"data/times/{path.stem}") for path in files(run, "data/times", ".json")
    }
    evaluated = figures["evaluate"]
    samples = evaluated["samples"]
    pairs: dict[str, dict[str, Any]] = {
        "train": {
            "val_loss": figures["train"]["held_out_loss"],
            "epoch_s": times["train"]["epoch_s"],
        },
        "evaluate": {
            "perplexity": evaluated["perplexity"],
            "samples_perplexity": samples["continuation_perplexity"]["value"],
            "samples_bleu": samples["sentence_bleu"]["value"],
        },
    }
    if "kl" in evaluated["truth"]:
        pairs["evaluate"]["above_floor"] = evaluated["truth"]["kl"]["value"]
        for kind, row in evaluated["truth"]["kinds"].items():
            pairs["evaluate"][f"above_floor_{kind}"] = row["kl"]["value"]
    for width in run.params["beam_bench"]["widths"]:
        pairs[f"beam/{width}"] = {
            "bleu": figures["beam_bench"]["methods"][f"beam {width}"]["bleu4"],
            "tokens/s": times["beam_bench"]["methods"][f"beam {width}"]["tokens_per_s"],
        }
    longest = max(run.params["kv_bench"]["lengths"])
    speeds = {}
    for row in times["kv_bench"]["settings"]:
        if row["new_tokens"] == longest:
            speeds[row["cache"]] = row["tokens_per_s"]
            name = "kv/on" if row["cache"] else "kv/off"
            pairs[name] = {"tokens/s": row["tokens_per_s"], "peak_mib": row["peak_mib"]}
    pairs["kv/on"]["speedup"] = round(speeds[True] / speeds[False], 2)
    for number, row in times["accum_sweep"]["settings"].items():
        pairs[f"accum/{number}"] = {key: row[key] for key in ("epoch_s", "peak_mib")}
    for row in times["ckpt_bench"]["settings"]:
        name = "ckpt/on" if row["recompute"] else "ckpt/off"
        pairs[name] = {key: row[key] for key in ("epoch_s", "peak_mib")}
    return pairs


Rows = list[tuple[Any, ...]]


def beam_rows(run: Run) -> Rows:
    """Methods with their widths, and the speed of one prompt and of all at once."""
    rows = []
    methods = run.json("data/times/beam_bench")["methods"]
    for series, key in (
        ("one prompt", "tokens_per_s"),
        ("all prompts at once", "batch_tokens_per_s"),
    ):
        for name, row in methods.items():
            width = int(name.split()[1]) if name.startswith("beam ") else 1
            rows.append((name, width, series, row[key]))
    return rows


def kv_rows(run: Run) -> Rows:
    rows = run.json("data/times/kv_bench")["settings"]
    names = {True: "cache", False: "no cache"}
    return [(row["new_tokens"], names[row["cache"]], row["tokens_per_s"]) for row in rows]


def ckpt_rows(run: Run) -> Rows:
    rows = run.json("data/times/ckpt_bench")["settings"]
    return [("on" if row["recompute"] else "off", "peak memory", row["peak_mib"]) for row in rows]


def decoding_rows(run: Run) -> Rows:
    """Three rows for each setting, in the order of the file."""
    series = {
        "total variation": "total_variation",
        "impossible words": "impossible",
        "true words cut away": "cut",
    }
    grades = run.json("data/figures/evaluate").get("decoding", {})
    return [
        (setting, name, grade[key]["value"])
        for setting, grade in grades.items()
        for name, key in series.items()
        if key in grade
    ]


# What plots/NAME.csv holds, or the property that computes it.
PLOTS: dict[str, Callable[[Run], Rows] | str] = {
    "beam_bench": beam_rows,
    "kv_bench": kv_rows,
    "ckpt_bench": ckpt_rows,
    **dict.fromkeys(
        ("loss", "perplexity", "learning_rate", "grad_norm"), "every_update_follows_from_its_formula"
    ),
    **dict.fromkeys(
        ("accum_micro_steps", "accum_updates", "accum_tokens"), "accumulation_trains_on_the_same_mini_batches"
    ),
    "decoding": decoding_rows,
    "truth": "the_divergence_is_that_of_the_generator_and_the_weights",
    "seeds": "seeds_are_scored_by_their_own_weights",
}  # fmt: skip


def files(run: Run, place: str, suffix: str) -> list[Path]:
    return sorted((run.folder / place).rglob(f"*{suffix}"))


@holds("measured")
def every_metric_and_plot_is_that_of_its_source(drawn: DrawnRun, folder: Path) -> None:
    """Each number in metrics/ and each row of plots/; a file without an entry here fails."""
    run = Run(folder)
    pairs = pairs_of_metrics(run)
    for path in files(run, "metrics", ".json"):
        name = path.relative_to(folder / "metrics").with_suffix("").as_posix()
        assert name in pairs, f"metrics/{name}.json: write its source in tests/drawn/benched.py"
        found = run.json(f"metrics/{name}")
        wanted = {key: value for key, value in pairs[name].items() if value is not None}
        assert set(found) == set(wanted), (
            f"metrics/{name}.json: {sorted(found)}, in pairs_of_metrics: {sorted(wanted)}"
        )
        for key, value in wanted.items():
            assert not (problem := differs(f"metrics/{name}.json, {key}", found[key], value)), (
                problem
            )
    missing = [name for name in pairs if not (folder / f"metrics/{name}.json").exists()]
    assert not missing, f"metrics/: {missing} are missing"
    for path in files(run, "plots", ".csv"):
        source = PLOTS.get(path.stem)
        assert source, f"plots/{path.stem}.csv: write its source in tests/drawn/benched.py"
        if isinstance(source, str):
            continue
        found = [tuple(row) for row in run.table(f"plots/{path.stem}").itertuples(index=False)]
        wanted = source(run)
        assert [row[:-1] for row in found] == [row[:-1] for row in wanted], f"{path.name}: {found}"
        numbers = [[row[-1] for row in rows] for rows in (found, wanted)]
        assert not (problem := differs(f"plots/{path.name}", *numbers)), problem


@holds("measured")
def pictures_and_shares_are_those_of_the_files(drawn: DrawnRun, folder: Path) -> None:
    """Curves, the trade-off of decoding, speed and memory with the cache, and the shares of operations."""
    run = Run(folder)
    data = read_run(folder, run.params)
    for name, table in (("loss_tokens", "loss"), ("perplexity", "perplexity")):
        for line in lines_of(PICTURES[name](data)):
            wanted = run.curve(table, str(line.get_label()), "tokens")
            assert not (problem := differs(f"picture {name}", line.get_xydata(), wanted)), problem
    settings = run.json("data/times/kv_bench")["settings"]
    for name, key in (("kv_speed", "tokens_per_s"), ("kv_memory", "peak_mib")):
        for line in lines_of(PICTURES[name](data)):
            is_cached = {"cache": True, "no cache": False}[str(line.get_label())]
            wanted = [
                (row["new_tokens"], row[key]) for row in settings if row["cache"] == is_cached
            ]
            assert not (problem := differs(f"picture {name}", line.get_xydata(), wanted)), problem
    speeds = run.json("data/times/beam_bench")["methods"]
    methods = run.json("data/figures/beam_bench")["methods"]
    shown = [name for name in methods if name != "beam 1"]
    (axes,) = PICTURES["beam_trade_off"](data).drawing.axes
    assert [point.get_label() for point in axes.containers] == shown, "picture beam_trade_off"
    for name, point in zip(shown, axes.containers, strict=True):
        wanted = [(speeds[name]["tokens_per_s"], methods[name]["bleu4"])]
        problem = differs(f"picture beam_trade_off, {name}", point[0].get_xydata(), wanted)
        assert not problem, problem

    values = template_values(data)
    update = run.json("data/times/ckpt_bench")["profile"]["shares"]
    step = run.json("data/times/kv_bench")["profile"]["shares"]
    wanted = {part: (update[part], step.get(part)) for part in update}
    found = {part: (first, second) for part, first, second in values["bottlenecks"]}
    assert found == wanted, f"shares of update and decoding step: expected {wanted}, got {found}"
    longest = max(row["new_tokens"] for row in settings)
    for name, is_cached in (("with_cache", True), ("without", False)):
        rows = [
            row for row in settings if (row["new_tokens"], row["cache"]) == (longest, is_cached)
        ]
        assert dataclasses.asdict(values[name]) == rows[-1], f"{name}: {values[name]}"
    for name, recomputes in (("recomputed", True), ("stored", False)):
        rows = run.json("data/times/ckpt_bench")["settings"]
        wanted_row = next(row for row in rows if row["recompute"] == recomputes)
        assert dataclasses.asdict(values[name]) == wanted_row, name


def lines_of(picture: Any) -> list[Any]:
    """Of the only axes of a picture."""
    return list(picture.drawing.axes[0].lines)

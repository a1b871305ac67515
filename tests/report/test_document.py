"""report.md of a finished run: everything that was measured is in it, and what is missing is named."""

import copy
import dataclasses
import re
from types import SimpleNamespace

import jinja2
import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st

from tests.support.runs import altered, part
from tests.support.size import ROOT
from tinylm.base.config import InputError, load_params, read_section
from tinylm.params.presets.write import FOLDER
from tinylm.report.assignment import differences, questions
from tinylm.report.charts import Labels, draw_lines
from tinylm.report.document import write_document
from tinylm.report.drawing import in_style, to_png, to_svg
from tinylm.report.pictures import PICTURES, attention_pictures, draw_pictures
from tinylm.report.render import render
from tinylm.report.settings import ReportSettings
from tinylm.report.values import MAP_ROWS, corpus_of, shown_heads, template_values
from tinylm.report.wording import MINUS, big, byte_count, loss, number
from tinylm.run.benches import CacheSpeed, RecomputeSpeed
from tinylm.run.downloaded import SplitCounts
from tinylm.run.evaluated import (
    DecodingGrade,
    Divergence,
    FreeTexts,
    LossWithInterval,
    Plausibility,
    WordMeasures,
)
from tinylm.run.finished_run import FILES, RESULTS, FinishedRun, Sentence, read_run
from tinylm.run.interval import Interval
from tinylm.run.role_pairs import NEXT_TOKEN

BLEU = st.sampled_from([0.0, 0.0355, 0.03550001, 0.2])
SHARE = Interval(0.123, 0.1, 0.2)
SCORE = st.sampled_from([-np.inf, -2.0, -1.50001, -1.5, -1.0])


@pytest.fixture(scope="session")
def finished(finished_run) -> FinishedRun:
    """The run of `finished_run`; not to be changed."""
    return read_run(finished_run, load_params(finished_run / "params.yaml"))


@pytest.fixture
def run(finished) -> FinishedRun:
    """A copy whose results a test may change."""
    return copy.deepcopy(finished)


@pytest.fixture
def settings(run) -> ReportSettings:
    return read_section(run.params, "report", ReportSettings)


def plain(markdown):
    return re.sub(r"\\(?=\W)", "", markdown)


def test_the_numbers_are_those_of_the_files(run, settings):
    markdown = write_document(run, settings, {})
    for text in (
        f"perplexity is {number(run.evaluate.perplexity)}",
        f"| unigram: token frequencies | {number(run.evaluate.baselines.unigram.perplexity)} |",
        f"| tokens scored | {run.evaluate.tokens:,} |",
        f"{loss(run.train.held_out_loss_last)} on held-out text",
        f"| trained parameters | {run.train.parameters_trainable:,} |",
        run.tables.rows("beams")[0]["reference"][:40],
    ):
        assert text in markdown
    for text in ("Undefined", "{", "}"):
        assert text not in markdown


def test_the_model_is_compared_with_each_target_scored_once_as_the_baselines_are(run, settings):
    evaluate = altered(run, evaluate__scored_once=part(LossWithInterval, perplexity=7.77)).evaluate
    markdown = write_document(dataclasses.replace(run, evaluate=evaluate), settings, {})
    assert "| this model | 7.77 |" in markdown


def test_weights_from_before_the_end_of_training_are_said_to_be(run, settings):
    tokens = run.train.tokens
    pictures = {"truth_training": SimpleNamespace(alt="areas")}
    said = ("; the saved weights are those after", "and, for the saved weights, after")
    # 0 has no place in the picture.
    for saved, is_said in ((None, (0, 0)), (tokens, (0, 0)), (tokens - 1, (1, 1)), (0, (1, 0))):
        told = with_truth(run, train__saved_tokens=saved)
        markdown = write_document(told, settings, pictures)
        assert tuple(text in markdown for text in said) == is_said


def test_rows_per_update_are_those_of_the_sweep(run, settings):
    for name, size in (("train", 3), ("accum_sweep", 7)):
        run.params[name]["batch_size"] = size
    names = [int(name) for name in run.accum_sweep.settings]
    markdown = write_document(run, settings, {})
    assert all(f"| {name} | {7 * name} |" in markdown for name in names)


def test_the_role_of_a_head_is_one_that_is_claimed(run):
    head = {"layer": 1, "head": 1, "score": 0.9, "baseline": 0.1}
    roles = [head | {"role": "likelier", "claimed": False}]
    roles.append(head | {"role": "claimed", "claimed": True, "score": 0.5})
    assert altered(run, tables__roles=pd.DataFrame(roles)).roles()["role"].iloc[0] == "claimed"


def test_the_widest_beam_is_the_widest_in_any_order(run):
    methods = run.beam_bench.methods
    quality = methods["greedy"]
    methods = {"greedy": quality, "beam 5": quality, "beam 12": quality, "beam 3": quality}
    assert template_values(altered(run, beam_bench__methods=methods))["widest"] == "beam 12"


@given(
    name=st.text("ab@.-", min_size=1),
    source=st.sampled_from(["local", "world", "hub"]),
)
def test_only_a_name_on_the_hub_ends_before_an_at_sign(name, source):
    if source == "hub":
        name = f"n{name.replace('@', '')}"
    place = f"me/{name}@0123abc" if source == "hub" else f"/data@home/{name}"
    data = {"source": source, "hub": place, "path": place}
    assert corpus_of(FinishedRun(params={"data": data})) == name


def test_the_title_names_the_run_unless_the_settings_have_one(run, settings):
    size = big(run.train.parameters)
    title = f"# A language model with {size} parameters, trained on stories.jsonl\n"
    assert write_document(run, settings, {}).startswith(title)
    named = dataclasses.replace(settings, title="Mine")
    assert write_document(run, named, {}).startswith("# Mine\n")
    assert "title: expected" in dataclasses.replace(settings, title=" ").problems()[0]


@pytest.mark.parametrize(
    ("of_samples", "of_stories", "count", "says"),
    [
        ((0.5, 0.4, 0.6), (0.2, 0.1, 0.3), 5, "than a new story has: the model copies"),
        ((0.2, 0.1, 0.3), (0.5, 0.4, 0.6), 5, "less in common with its nearest training story"),
        ((0.4, 0.3, 0.5), (0.35, 0.2, 0.45), 5, "does not show that the model copies"),
        ((0.5, 0.4, 0.6), (0.2, 0.1, 0.3), 4, "too few texts to say whether the model copies"),
    ],
)
def test_the_model_is_said_to_copy_only_if_the_intervals_say_so(
    run, settings, of_samples, of_stories, count, says
):
    changed = altered(
        run,
        evaluate__memorised__continuations__nearest=Interval(*of_samples),
        evaluate__memorised__continuations__count=count,
        evaluate__memorised__references__nearest=Interval(*of_stories),
        evaluate__memorised__references__count=7,
    )
    markdown = write_document(changed, settings, {})
    assert re.search(rf"{says}[^\n]*\n\n\*", markdown)  # the caption begins a paragraph


def test_what_differs_from_the_assignment_is_listed(run, settings):
    run.params["kv_bench"]["batch"] = 20
    run.params["train"]["lr"] = 0.0125
    markdown = write_document(run, settings, {})
    assert "| learning rate | 0.0003 | 0.0125 |" in markdown
    assert "| texts in the cache |" not in markdown
    (as_asked,) = re.findall(r"As asked: (.*?)\.", markdown)
    assert {"sinusoidal positions", "a cache test on 20 prompts"} <= set(as_asked.split("; "))


# What each reason says of a run.
REASONS = {
    "as in GPT-2": lambda of: True,
    "nothing to download": lambda of: of["embedding.source"] == "skipgram",
    "a lower loss on TinyStories, as section Training shows": (
        lambda of: of["vocab.tokenizer"] == "words"
    ),
    "width 128, 32 for each head": (
        lambda of: (
            (of["embedding.width"], of["model.heads"], of["model.head_width"]) == (128, 4, None)
        )
    ),
    "32 for each of the 4 heads": (
        lambda of: (
            (of["embedding.width"], of["model.heads"], of["model.head_width"]) == (128, 4, None)
        )
    ),
    "a whole story fits": (
        lambda of: (
            (of["data.source"], of["vocab.tokenizer"]) == ("storybook", "words")
            and of["vocab.punctuation"] != "keep"
        )
    ),
    "a lower loss on the same text": (
        lambda of: (of["train.optimizer"], of["data.source"]) == ("muon", "storybook")
    ),
    "with warm-up and decay": (
        lambda of: of["train.schedule"] == "cosine" and of["train.warmup"] > 0
    ),
    "on matrices only": lambda of: of["train.decay"] == "matrices",
    "the true probabilities are known": lambda of: of["data.source"] in ("storybook", "world"),
    "chosen in params.yaml": lambda of: True,
    "no GPU was used": lambda of: True,
}
CHOICES = {
    "data.source": ["storybook", "local", "world"], "vocab.tokenizer": ["words", "bpe"],
    "vocab.punctuation": ["drop", "attached", "keep"],
    "embedding.source": ["skipgram", "file"], "embedding.width": [128, 64],
    "model.layers": [3, 4], "model.heads": [8, 4], "model.head_width": [None, 32], "model.context": [64, 192],
    "model.norm": ["post", "pre"], "model.activation": ["relu", "gelu"],
    "train.optimizer": ["adam", "adamw", "muon"], "train.lr": [0.0003, 0.003], "train.weight_decay": [0.0, 0.01],
    "train.decay": ["matrices", "all"], "train.schedule": ["constant", "cosine"], "train.warmup": [0.0, 0.05],
}  # fmt: skip


def test_each_setting_of_the_default_run_has_a_reason(run):
    default = dataclasses.replace(run, params=load_params(FOLDER / "storybook.yaml"))
    reasons = {why for *_, why in differences(default, "the text")[0]}
    assert reasons == REASONS.keys() - {"chosen in params.yaml"}


def test_a_reason_for_a_setting_is_true_of_the_run(run):
    @drawn(max_examples=200, deadline=None)
    @given(st.fixed_dictionaries({key: st.sampled_from(CHOICES[key]) for key in CHOICES}))
    def check(chosen):
        for key, value in chosen.items():
            section, _, name = key.partition(".")
            run.params[section][name] = value
        for _, asked, done, why in differences(run, "the text")[0]:
            assert asked != done
            assert REASONS[why](chosen), (why, chosen)

    check()


def test_what_the_report_answers_only_in_part_is_marked(run, settings):
    run.params["embedding"]["source"] = "skipgram"
    run.params["kv_bench"]["batch"] = 20
    answered = {row[0]: row[2] for row in questions(run, settings, "TinyStories")}
    assert len(answered) == 14
    vectors = "the model, from scratch, with fastText vectors and sinusoids"
    assert answered[vectors] == "partly: the word vectors are not the published ones"
    assert answered["TinyStories, its splits and preprocessing"] == "yes"
    assert answered["the model on the Hugging Face hub"] == "no"
    published = dataclasses.replace(settings, hub_path="me/tiny", observations=("A head …",))
    answered = {row[0]: row[2] for row in questions(run, published, "my stories")}
    assert answered["TinyStories, its splits and preprocessing"] == "partly: the text is my stories"
    assert answered["the model on the Hugging Face hub"] == "yes"
    assert answered["what the heads have learned"] == "yes"


@pytest.mark.parametrize("device", ["cpu", "NVIDIA H200"])
def test_memory_of_a_gpu_is_what_the_assignment_asks_for(run, settings, device):
    changed = altered(run, times__ckpt_bench__conditions__device=device)
    markdown = write_document(changed, settings, {})
    assert ("no GPU was used" in markdown) == (device == "cpu")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("storybook", "is unknown here: the model reads some words as &lt;unk>"),
        ("local", "is unknown, because nobody knows the true probabilities"),
    ],
)
def test_the_reason_why_there_is_no_floor_is_true(run, settings, source, reason):
    run.params["data"]["source"] = source
    changed = altered(run, evaluate__baselines__floor=None, evaluate__unknown_share=0.1)
    sentences = re.findall(
        r"How much better a model could get (.*)", write_document(changed, settings, {})
    )
    assert len(sentences) == 1
    assert sentences[0].startswith(reason)


@pytest.mark.parametrize(
    ("layers", "recomputed", "stored", "sentence"),
    [
        (1, 5.0, 5.0, "This model has one block, which is the last, so both runs do the same"),
        (2, 5.001, 5.002, "What it saves: nothing here."),
        (2, 6.0, 5.0, "What it saves: nothing here."),
        (2, 5.0, 6.0, "What it saves: an update needs at most 5.00 MiB instead of 6.00 MiB"),
    ],
)
def test_checkpointing_saves_memory_only_where_it_does(
    run, settings, layers, recomputed, stored, sentence
):
    run.params["model"]["layers"] = layers
    steps = [
        part(RecomputeSpeed, recompute=recompute, update_s=1.0, peak_mib=mebibytes)
        for recompute, mebibytes in ((True, recomputed), (False, stored))
    ]
    text = write_document(altered(run, times__ckpt_bench__settings=steps), settings, {})
    assert sentence in text.replace("**", "")
    assert ("not those of both" in text) == (stored == 6.0)
    assert ("What it costs" in text) == (layers > 1)


def test_training_stops_after_one_validation_or_several(run, settings):
    for patience, shown in ((1, "1 validation without"), (2, "2 validations without")):
        run.params["train"]["patience"] = patience
        assert f"Training stops after {shown} improvement" in write_document(run, settings, {})


def test_words_without_vectors_and_texts_without_2_grams_are_not_measured(run, settings):
    text = write_document(run, settings, {})
    assert "of its words have a vector" in text
    assert " varied: " in text
    methods = {
        name: dataclasses.replace(quality, distinct2=0.0)
        for name, quality in run.beam_bench.methods.items()
    }
    changed = altered(
        run,
        vocab__embedding__coverage=None,
        beam_bench__methods=methods,
        evaluate__samples__distinct2=0.0,
        evaluate__samples__reference_distinct2=0.0,
    )
    text = write_document(changed, settings, {})
    assert "of its words have a vector" not in text
    assert " varied: " not in text
    assert "| distinct 2-grams | 0" not in text
    assert not re.search(r"\| greedy \|.*\| 0 %", text)


@pytest.mark.parametrize("same", [True, False, None])
def test_tokens_that_were_not_compared_are_not_called_the_same(run, settings, same):
    markdown = write_document(altered(run, kv_bench__same_ids=same), settings, {})
    assert ("The tokens are the same" in markdown) == (same is not None)
    assert ("The tokens were not compared" in markdown) == (same is None)


@pytest.mark.parametrize(
    ("tokenizer", "lower", "sentence"),
    [
        ("bpe", False, "Case is kept; punctuation is kept."),
        ("words", True, "Letters become lower case; punctuation is dropped."),
    ],
)
def test_only_words_drop_punctuation(run, settings, tokenizer, lower, sentence):
    chosen = {"tokenizer": tokenizer, "lower_case": lower, "punctuation": "drop"}
    run.params["vocab"].update(chosen)
    assert sentence in " ".join(write_document(run, settings, {}).split())


@pytest.mark.parametrize("own_evaluation", [True, False])
def test_a_cut_stream_is_described_as_one(run, settings, own_evaluation):
    run.params["data"]["held_out"] = "tokens"
    run.download.splits["held_out"] = SplitCounts(0, 0)
    if not own_evaluation:
        run.download.splits["evaluation"] = SplitCounts(0, 0)
    text = " ".join(write_document(run, settings, {}).split())
    assert "| held-out | – | – |" in text
    assert ("so are train stories" in text) is own_evaluation
    assert ("the held-out text once more" in text) is not own_evaluation


def test_the_losses_of_other_hyperparameters_are_those_of_the_studies(run, settings):
    """The table's rows in order; names of studies and settings are those of studies/results."""
    markdown = plain(write_document(run, settings, {}))
    table = markdown.partition("### Other hyperparameters")[2].partition("\n\n### ")[0]
    context = ("tinystories-context", "tinystories-context-updates")
    names = ("rate", "layers", "heads", *context, "embeddings")
    rows = [row for row in table.splitlines() if re.search(r": \d\.\d{3}", row)]
    assert len(rows) == len(names)
    for name, row in zip(names, rows, strict=True):
        result = pd.read_csv(ROOT / f"studies/results/{name}.csv", dtype={"setting": str})
        means = result.groupby("setting", sort=False)["held_out_loss"].mean()
        shown = " · ".join(f"{setting}: {mean:.3f}" for setting, mean in means.items())
        assert f"| {shown} |" in row


def test_the_recorded_run_of_the_assignment_is_quoted_with_its_numbers(run, settings):
    record = pd.read_csv(ROOT / "studies/runs/assignment-fasttext.csv", index_col="number")["1"]
    bleu = float(record["metrics/evaluate/samples_bleu"])
    text = " ".join(write_document(run, settings, {}).split())
    assert f"{float(record['download/splits/train/stories']):,.0f} stories of TinyStories" in text
    assert f"stories is {float(record['evaluate/perplexity']):.1f}, and" in text
    assert f"50 samples is {bleu:.3f}." in text


def test_observations_are_plain_paragraphs_in_a_section_of_their_own(run, settings):
    assert "## Observations" not in write_document(run, settings, {})
    own = dataclasses.replace(settings, observations=("The *first* story", "# ends well"))
    markdown = write_document(run, own, {})
    assert "\n\nThe \\*first\\* story\n\n\\# ends well\n\n" in markdown


def test_checks_of_accumulation_and_beam_search_are_in_the_report(run, settings):
    beams = pd.DataFrame(
        [{"prompt": "a", "method": name, "text": "b"} for name in ("greedy", "beam 1")]
    )
    beams = beams.assign(reference="c", log_prob=-1.0, score=-1.0)
    changed = altered(run, accum_sweep__gradient_difference=2.34e-7, tables__beams=beams)
    markdown = write_document(changed, settings, {})
    assert "same rows by at most 2.3e-07 of its largest" in plain(markdown).replace(MINUS, "-")
    assert "a beam of width 1 writes the same texts" in markdown
    beams.loc[1, "text"] = "other"
    assert "a beam of width 1" not in write_document(changed, settings, {})


@drawn(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bleu=st.tuples(BLEU, BLEU),
    log_prob=st.tuples(st.floats(-9, -1), st.floats(-9, -1)),
    score=st.tuples(SCORE, SCORE),
    distinct=st.tuples(st.sampled_from([0.5, 0.5001, 0.7]), st.sampled_from([0.5, 0.7])),
)
def test_sentences_about_beam_search_agree_with_their_numbers(
    run, settings, bleu, log_prob, score, distinct
):
    """The search is judged by the score that it maximises, not by the log-probability per token."""
    methods = dict(run.beam_bench.methods)
    names = ("greedy", max(methods, key=_width))
    beams = run.tables.frame("beams")
    for place, name in enumerate(names):
        methods[name] = dataclasses.replace(
            methods[name],
            bleu4=bleu[place],
            log_prob_per_token=log_prob[place],
            distinct2=distinct[place],
        )
        beams.loc[beams["method"] == name, ["text", "score"]] = [f"text of {name}", score[place]]
    changed = altered(run, beam_bench__methods=methods, tables__beams=beams)
    text = plain(write_document(changed, settings, {}))
    shown = [number(value) for value in bleu]
    if shown[0] == shown[1]:
        assert f"BLEU-4 stays {shown[0]}." in text
        assert "Why BLEU may stay the same." in text
    else:
        assert f"BLEU-4 from {shown[0]} to {shown[1]}." in text
        assert f"Why BLEU may {'rise' if bleu[1] > bleu[0] else 'fall'}." in text
    gain = round(score[1] - score[0], 3) if -np.inf not in score else np.nan
    assert ("Beam search finds texts with a higher mean score" in text) == (gain > 0)
    assert ("Beam search fails here: its texts have a lower mean score" in text) == (gain < 0)
    assert ("Beam search finds texts with the same mean score" in text) == (gain == 0)
    if gain > 0 or gain < 0:
        assert f"mean score ({number(score[1], 4)} instead of {number(score[0], 4)})" in text
    assert "BLEU rewards the names" not in text or gain > 0
    assert not re.search(r"(more|less) varied: (\d+ %) distinct 2-grams instead of \2", text)


def test_a_beam_search_that_finds_the_greedy_texts_is_not_called_better(run, settings):
    beams = run.tables.frame("beams").assign(text="the same")
    text = plain(write_document(altered(run, tables__beams=beams), settings, {}))
    assert "Beam search returned exactly the texts of greedy decoding." in text
    assert "mean score (" not in text
    assert "varied" not in text


def _width(name):
    return int(name.split()[1]) if name.startswith("beam ") else 0


def test_accumulation_whose_training_diverged_is_not_compared(run, settings):
    diverged = {}
    for accumulation, trained in run.accum_sweep.settings.items():
        diverged[accumulation] = dataclasses.replace(trained, held_out_loss_at_equal_tokens=None)
    compared = "the number of updates matters"
    assert compared in write_document(run, settings, {})
    changed = altered(run, accum_sweep__settings=diverged)
    assert compared not in write_document(changed, settings, {})


def test_a_missing_or_damaged_result_is_one_error_that_names_its_file(finished_run, run, tmp_path):
    with pytest.raises(InputError, match=r"data/figures/\w+\.json.*dvc repro"):
        read_run(tmp_path, run.params, whole=True)
    assert read_run(tmp_path, run.params) == FinishedRun(params=run.params)
    for path, _, _ in FILES.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"\xff\xfe{")
        with pytest.raises(InputError, match=f"{path}.*dvc repro") as error:
            read_run(tmp_path, run.params)
        assert "\n" not in str(error.value)
        (tmp_path / path).unlink()


def test_the_first_impossible_word_is_marked(run, settings):
    """In a run of the storybook, whose generator alone can tell."""
    sample = run.tables.rows("samples")[0] | {"prompt": "once upon a time there", "finished": False}
    sample["continuation"] = "was a clever zebra named anna"
    changed = altered(run, tables__samples=pd.DataFrame([sample]), download__source="storybook")
    assert "**zebra**" not in write_document(changed, settings, {})
    judged = Plausibility(1, Interval(0.0, 0.0, 1.0), None, {"person": 1})
    markdown = write_document(altered(changed, evaluate__sense=judged), settings, {})
    assert "> was a clever **zebra** *named anna*\n" in markdown
    assert "After a marked word, the text is grey: it is not judged" in markdown
    assert "The first impossible word is “zebra”; possible words: " in markdown


def with_truth(run, **values):
    """The run as if the generator had judged it, with other values as for `altered`."""
    measures = dict.fromkeys(("true", "model", "excess", "kl", "impossible"), SHARE)
    kinds = {"plot": WordMeasures(words=9, **measures)}
    truth = Divergence(
        stories=2, words=9, unknown_nats=0.0, unseen_mass=0.0, kinds=kinds, **measures
    )
    return altered(run, evaluate__truth=truth, download__source="storybook", **values)


def test_greedy_decoding_is_described_also_if_it_is_the_runs_own(run, settings):
    """The grades then have it only as section decode."""
    free = FreeTexts(texts=1, words=None, excess_nats=SHARE, names=None, distinct=0.5)
    grade = DecodingGrade(
        total_variation=SHARE, impossible=SHARE, cut=SHARE, difference=SHARE, free=free
    )
    grades = dict.fromkeys(("section decode", "temperature 1", "the generator"), grade)
    grades["temperature 1"] = dataclasses.replace(grade, impossible=Interval(0.9, 0.8, 1.0))
    markdown = write_document(with_truth(run, evaluate__decoding=grades), settings, {})
    assert "greedy decoding draws an impossible word with a probability of 12.3 %" in markdown


@pytest.mark.parametrize(
    ("is_claimed", "title"),
    [
        (True, "layer 2, head 1: previous token"),
        (False, "layer 2, head 1 (closest role: previous token)"),
    ],
)
def test_a_shown_head_comes_with_an_example_of_its_role(run, settings, is_claimed, title):
    words = ["<sos>", "a", "b", "c"]
    maps = np.zeros((2, 2, 4, 4))
    maps[1, 0, 3, 2] = 0.75  # c attends to b
    maps[1, 0, 3, 0] = 0.9
    scores = {"score": 0.5, "baseline": 0.1, "claimed": is_claimed}
    heads = [{"layer": 2, "head": 1, "role": "previous token", **scores}]
    ablation = [{"layer": 2, "head": 1, "loss_increase": 0.1, "low": 0.0, "high": 0.2}]
    changed = altered(
        run,
        tables__roles=pd.DataFrame(heads),
        tables__ablation=pd.DataFrame(ablation),
        tables__attention=[Sentence(words, maps, "d", 1.0)],
    )
    (head,) = shown_heads(changed)
    assert (head["from"], head["to"], head["weight"]) == ("c", "b", 0.75)
    assert head["title"] == title
    pictures = attention_pictures(changed)
    assert pictures["head_1"].alt == f"Attention of {title}, over: <sos> a b c"
    markdown = write_document(changed, settings, pictures)
    assert title.capitalize() in markdown


@pytest.mark.parametrize("is_claimed", [True, False])
def test_a_head_that_supplies_a_word_is_shown_with_its_row_and_all_its_roles(
    run, settings, is_claimed
):
    """The last row has no word after it in the map; the model's likeliest next one is taken."""
    run.params["vocab"]["tokenizer"] = "bpe"
    words = ["<sos>", "Ġtom", *("a", "b") * 8, "and"]
    maps = np.zeros((2, 2, 19, 19))
    maps[1, 1, 18, 1] = 0.97  # "and", before the second "tom", attends to the first
    of_head = {"layer": 2, "head": 2, "baseline": 0.1, "claimed": is_claimed}
    roles = [
        of_head | {"role": "first token", "score": 0.3},
        of_head | {"role": NEXT_TOKEN, "score": 0.6},
        of_head | {"role": "same token", "score": 0.05, "claimed": False},
    ]
    ablation = [{"layer": 2, "head": 2, "loss_increase": 0.5, "low": 0.4, "high": 0.6}]
    changed = altered(
        run,
        tables__roles=pd.DataFrame(roles),
        tables__ablation=pd.DataFrame(ablation),
        tables__attention=[Sentence(words, maps, "Ġtom", 0.9)],
    )
    (head,) = shown_heads(changed)
    assert head["map"].shape == (MAP_ROWS, 19)
    assert head["map"][-1, 1] == 0.97  # the last row is not cut off
    pictures = attention_pictures(changed)
    labels = pictures["head_1"].drawing.axes[0].get_xticklabels()
    assert "·tom" in [label.get_text() for label in labels]
    markdown = write_document(changed, settings, pictures)
    assert "Ġ" not in markdown
    assert "and the row of “and” gives the earlier “·tom” a weight of 97 %" in markdown
    assert ("this head supplies" in markdown) == is_claimed
    in_table = f"| 2.2 | {NEXT_TOKEN} 0.60 (0.10); first token 0.30 (0.10) | 0.500"
    assert (in_table in markdown) == is_claimed
    unclaimed = "No head clearly attends to earlier occurrences of the same token."
    assert unclaimed in markdown or not is_claimed


def test_an_empty_text_is_a_text(run, tmp_path):
    (tmp_path / "data/evaluate").mkdir(parents=True)
    (tmp_path / "data/evaluate/samples.csv").write_text("prompt,continuation,bleu\n007,,\n")
    rows = read_run(tmp_path, run.params).tables.rows("samples")
    assert rows == [{"prompt": "007", "continuation": "", "bleu": None}]


def test_samples_are_few_and_the_first_ones(run, settings):
    samples = run.tables.rows("samples")
    many = [samples[0] | {"continuation": f"sample number {index}"} for index in range(20)]
    changed = altered(run, tables__samples=pd.DataFrame(many))
    markdown = write_document(changed, settings, {})
    shown = [len(re.findall("> sample number", part)) for part in markdown.split("## ")]
    assert [number for number in shown if number] == [1, 2, 6]  # summary, samples, appendix


def test_times_are_compared_the_right_way_round(run, settings):
    rows = [
        part(CacheSpeed, new_tokens=size, cache=cache, tokens_per_s=speed, peak_mib=1.0)
        for size, cache, speed in ((8, True, 9.0), (8, False, 9.0), (64, True, 400.0), (64, False, 100.0))
    ]  # fmt: skip
    steps = [
        part(RecomputeSpeed, recompute=recompute, update_s=seconds, peak_mib=mebibytes)
        for recompute, seconds, mebibytes in ((True, 1.5, 20.0), (False, 1.0, 90.0))
    ]
    changed = altered(run, times__kv_bench__settings=rows, times__ckpt_bench__settings=steps)
    markdown = " ".join(write_document(changed, settings, {}).split())
    assert "decoding 64 tokens is 4.0 times as fast: 400 tokens/s" in markdown
    assert "needs at most 20.0 MiB instead of 90.0 MiB" in markdown
    assert "takes 1.50 s instead of 1.00 s, 1.50 times as long" in markdown
    assert "| KV cache, 64 new tokens | the same tokens | 100 → 400 tokens/s |" in markdown
    drawn = draw_pictures(changed)
    for name, label, values in (
        ("kv_speed", "cache", [9.0, 400.0]),
        ("kv_speed", "no cache", [9.0, 100.0]),
    ):
        lines = {line.get_label(): line for line in drawn[name].drawing.axes[0].lines}
        assert lines[label].get_ydata().tolist() == values
        assert drawn[name].drawing.axes[0].get_xticks().tolist() == [8, 64]


FIELDS = [field.name for kind in RESULTS.values() for field in dataclasses.fields(kind)]


@drawn(max_examples=40, suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(list(RESULTS.values())), name=st.sampled_from(FIELDS))
def test_a_template_may_name_what_is_missing_but_no_field_that_does_not_exist(tmp_path, kind, name):
    template = tmp_path / "a.md.j2"
    template.write_text(f"{{{{ result.{name}.further | number }}}}")
    assert render(template, result=None) == "–\n"
    template.write_text(f"{{{{ result.{name} }}}}")
    if name in {field.name for field in dataclasses.fields(kind)}:
        assert render(template, result=part(kind))
        return
    with pytest.raises(jinja2.UndefinedError, match=f"{kind.__name__} has no field {name}"):
        render(template, result=part(kind))


def test_numbers_in_words():
    assert byte_count(5 * 2**30) == "5.00 GiB"
    assert byte_count(3 * 2**20) == "3.00 MiB"
    assert number(np.float32(9.996)) == "10.0"
    assert number(float("nan")) == number(None) == number("3") == "–"


def test_every_picture_is_on_the_page_with_an_alt_text(finished_run):
    page = (finished_run / "report/index.html").read_text(encoding="utf-8")
    drawn = {path.stem for path in (finished_run / "plots/pictures").glob("*.svg")}
    svgs = re.findall(r"<svg[^>]*>", page)
    assert len(svgs) == len(drawn)
    assert all(re.search(r'role="img" aria-label="[^"]{10,}"', svg) for svg in svgs)
    assert drawn >= {name for name in PICTURES if not name.startswith("truth")}  # no storybook
    assert "<mark>" not in page


def test_the_page_is_whole_follows_dark_mode_and_loads_nothing(finished_run):
    page = (finished_run / "report/index.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=\"(?!#|data:|lab\.html)", page)
    assert not re.search(r"url\((?!#)|@import|<script|<link rel=\"stylesheet", page)
    assert "prefers-color-scheme: dark" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))
        assert colours <= {"#000000", "#ffffff"}


def test_a_users_matplotlibrc_changes_no_picture():
    """text.usetex ended the report; other keys changed every picture."""
    frame = pd.DataFrame({"x": [0, 1, 2], "series": "held-out", "value": [9.0, 3.0, 2.0]})
    drawn = []
    for of_user in ({}, {"text.usetex": True, "axes.facecolor": "black", "savefig.bbox": "tight"}):
        with matplotlib.rc_context(of_user):
            with in_style():
                picture = draw_lines(frame, Labels("title", "tokens", "loss"))
            drawn.append((to_svg(picture), to_png(picture.drawing)))
    assert drawn[0] == drawn[1]


@given(st.floats(1e6, 9.99e14) | st.sampled_from([999_499_999, 999_500_000, 999_999_999]))
def test_a_large_number_is_below_a_thousand_of_its_unit(value):
    shown, unit = big(value).split()
    assert 1 <= float(shown) < 1000
    size = {"million": 1e6, "billion": 1e9, "trillion": 1e12}[unit]
    assert float(shown) * size == pytest.approx(value, rel=0.006)

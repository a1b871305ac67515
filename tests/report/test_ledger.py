"""The ledger: every claim is decided by files, and no figure in it was typed."""

import ast
import copy
import inspect
import json
import re
from pathlib import Path

import pytest

from tests.report.conftest import trials
from tinylm.base.config import InputError, parse_yaml
from tinylm.presets.write import preset_text
from tinylm.report.figures import Figures
from tinylm.report.library import (
    LEDGER,
    NOT_RUN,
    RUNS,
    STATUSES,
    STUDIES,
    SYSTEMS,
    UNTESTABLE,
    Entry,
    Library,
    gather,
    library,
    published,
    read_ledger,
)
from tinylm.report.reference_sections import ledger, with_library
from tinylm.report.reference_sections import published as published_section
from tinylm.report.references import headlines, tables
from tinylm.report.sources import Run, read_run
from tinylm.report.wording import ABSENT
from tinylm.studies.claims import ONCE
from tinylm.studies.ledger import COMPUTED, MODULES, claims, entries, renew
from tinylm.studies.study_plan import read_studies, summed_up

ROOT = Path(__file__).parents[2]
NAMES_WITH_DIGITS = re.compile(r"\b(BLEU|GPT)-\d\b")


def edit(folder: Path, name: str, change) -> None:
    path = folder / name
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), "utf-8")


def complete(folder: Path) -> None:
    """Add what the real stages write beside the files of `run_folder`: other lengths and depths, epochs, heads."""

    def kv(value: dict) -> None:
        for new_tokens in (32, 40, 64, 512):
            for cache in (True, False):
                row = value["settings"][0] | {
                    "new_tokens": new_tokens,
                    "cache": cache,
                    "cache_mib": 2.0,
                }
                value["settings"].insert(0, row | trials(tokens_per_s=900.0 if cache else 300.0))

    def ckpt(value: dict) -> None:
        for recompute in (True, False):
            row = {"layers": 3, "recompute": recompute, "peak_mib": 90 if recompute else 200}
            value["settings"].append(row | trials(step_s=0.4 if recompute else 0.3))

    def train(value: dict) -> None:
        figures = {"train_loss": 4.5, "held_out_loss": 4.0}
        rows = [{"epoch": n, "held_out_perplexity": 80.0 - n, **figures} for n in range(1, 7)]
        value |= {"by_epoch": rows, "parameters_trainable": 900000}

    def evaluated(value: dict) -> None:
        names = published()["B"]["head_roles"]
        roles = {name: {"score": 0.5, "baseline": 0.1 + i / 10} for i, name in enumerate(names)}
        value["heads"] = {"roles": roles, "ablation": {"idle": 3}}
        value["samples"]["sentence_bleu"] = {"value": 0.01, "low": 0.005, "high": 0.02}

    edit(folder, "metrics/kv_bench_time.json", kv)
    edit(folder, "metrics/ckpt_bench_time.json", ckpt)
    edit(folder, "data/figures/train.json", train)
    edit(folder, "data/figures/evaluate.json", evaluated)
    edit(
        folder,
        "data/figures/vocab.json",
        lambda value: value.update(sequence_length={"mean": 170.0}),
    )
    with (folder / "plots/loss.csv").open("a", encoding="utf-8") as handle:
        handle.write("0,0,held-out,11.01\n500,90,held-out,3.1\n500,90,train,3.0\n")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, make_run):
    """A folder in which every preset and every study is recorded, with two seeds each."""
    folder = tmp_path_factory.mktemp("recorded")
    make_run(folder)
    complete(folder)
    (folder / RUNS).mkdir(parents=True)
    (folder / STUDIES).mkdir()
    for system in SYSTEMS:
        preset = published()[system]["preset"]
        chosen = parse_yaml(preset_text(preset), preset)
        entry = {"date": "2025-01-02", "commands": [], **gather(read_run(folder, chosen))}
        other = copy.deepcopy(entry)
        other["metrics"]["train"]["train_loss"] += 0.1
        value = {
            "name": preset,
            "preset": preset,
            "params": chosen,
            "seeds": {"1": entry, "2": other},
        }
        (folder / RUNS / f"{preset}.json").write_text(json.dumps(value), "utf-8")
    for study in read_studies().values():
        (folder / STUDIES / f"{study.name}.json").write_text(
            json.dumps(study_record(study)), "utf-8"
        )
    return folder


@pytest.fixture(scope="module")
def held(recorded):
    return library(recorded)


def study_record(study) -> dict:
    runs = {
        setting: {
            str(seed): {"held_out_loss": 4.0 + seed / 10 + i / 7, "held_out_perplexity": 88.0 + seed, "diverged": 0,
                        "train_loss": 4.1, "epoch_train_loss": 4.9 + seed / 50, "tokens": 900, "updates": 9}
            for seed in (1, 2)
        }
        for i, setting in enumerate(study.settings)
    }  # fmt: skip
    return {
        "name": study.name, "preset": study.preset, "question": study.question, "system": study.system,
        "answer": study.answer, "seeds": [1, 2], "commands": [f"tinylm study {study.name}"],
        "conditions": {"cores": 2, "threads": 1}, "date": "2025-01-02", "data": {"unigram_loss": 5.5},
        "settings": summed_up(study, runs)
    }  # fmt: skip


def decided(known: Library) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries(known)}


def changed(known: Library, system: str, change) -> Library:
    figures = published()
    change(figures[system])
    return Library(Figures(figures), known.runs, known.studies)


def test_the_ledger_in_docs_is_what_the_claims_give():
    found = entries(library(ROOT))
    assert read_ledger(ROOT) == found, "tinylm record --ledger writes it"
    assert len(found) == len({entry.name for entry in found}) == 85
    assert {entry.system for entry in found} == set(SYSTEMS)
    for entry in found:
        assert entry.status in STATUSES
        assert entry.claim
        assert entry.command.startswith("tinylm ")
        assert not re.search(r"[{}<>]|nan", entry.claim + entry.evidence)


def typed(source: str) -> list[str]:
    """The texts with digits that a claim's sentences are written of; keys and what stands in braces are left aside."""
    nodes = list(ast.walk(ast.parse(source)))
    filled = [node.slice if isinstance(node, ast.Subscript) else node for node in nodes]
    aside = {
        id(leaf)
        for node, part in zip(nodes, filled)
        if isinstance(node, ast.Subscript | ast.FormattedValue)
        for leaf in ast.walk(part)
    }
    texts = [
        node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in aside
    ]
    return [
        text
        for text in texts
        if isinstance(text, str) and re.search(r"\d", NAMES_WITH_DIGITS.sub("", text))
    ]


def test_no_figure_is_typed_in_a_sentence():
    every = [claim for module in MODULES.values() for claim in claims(module).values()]
    assert {
        claim.__name__: found for claim in every if (found := typed(inspect.getsource(claim)))
    } == {}
    assert typed("yield f\"BLEU-4 of {row['8']:.2f} and 0.3\"") == [" and 0.3"]


def test_with_everything_recorded_every_claim_finds_its_figures(held):
    for entry in entries(held):
        assert entry.status != NOT_RUN, entry.name
        assert entry.evidence, entry.name


def test_nothing_recorded_is_said_and_never_a_value(tmp_path):
    found = decided(library(tmp_path))
    assert found["E-epoch-1-perplexity"].status == NOT_RUN
    assert found["E-epoch-1-perplexity"].evidence == ""
    assert found["E-epoch-1-perplexity"].command == "tinylm study epoch-1"
    assert (
        found["A-level"].command == "tinylm preset word-50k && dvc repro && tinylm record word-50k"
    )
    assert found["A-cache-totals"].status == "contradicted"
    assert "2.9" in found["A-cache-totals"].evidence
    assert found["A-cache-totals"].command == COMPUTED
    assert found["B-head-width"].evidence == "8 x 37 = 296."
    assert found["A-share-of-data"].evidence == "They are 2.4%."


def test_the_status_follows_the_figures(held):
    before = decided(held)
    assert before["A-share-of-data"].status == "contradicted"
    assert before["E-epoch-1-perplexity"].status == "reproduced"
    more = changed(held, "A", lambda figures: figures["data"].update(stories=525000))
    assert decided(more)["A-share-of-data"].status == "reproduced"
    less = changed(held, "E", lambda figures: figures["epochs"][0].update(perplexity=60.0))
    assert decided(less)["E-epoch-1-perplexity"].status == "contradicted"


def test_a_time_that_was_measured_once_decides_nothing(recorded):
    times = {
        "A-beam-speed",
        "A-cache-ratio",
        "A-accumulation-time",
        "B-cache-ratio",
        "B-accumulation-time",
    }
    times |= {"B-recompute-time", "S-cache", "S-recompute"}
    before = decided(library(recorded))
    assert not [name for name in times if before[name].status == UNTESTABLE]

    def without_trials(value):
        if isinstance(value, dict):
            return {k: without_trials(v) for k, v in value.items() if not str(k).startswith("low_")}
        return [without_trials(item) for item in value] if isinstance(value, list) else value

    for path in (recorded / RUNS).glob("*.json"):
        path.write_text(json.dumps(without_trials(json.loads(path.read_text("utf-8")))), "utf-8")
    after = decided(library(recorded))
    assert {name for name, entry in after.items() if entry.status != before[name].status} == times
    assert {after[name].status for name in times} == {UNTESTABLE}
    assert all(ONCE in after[name].evidence for name in times)


def test_a_written_ledger_reads_back_and_a_damaged_one_is_named(tmp_path):
    assert renew(tmp_path) == read_ledger(tmp_path)
    text = (tmp_path / LEDGER).read_text("utf-8")
    for wrong in (
        text.replace("status: reproduced", "status: perhaps", 1),
        text.replace("  system: A\n", "", 1),
        "a: 1",
    ):
        (tmp_path / LEDGER).write_text(wrong, "utf-8")
        with pytest.raises(
            InputError, match=r"docs/ledger.yaml: .* is not whole; tinylm record --ledger"
        ):
            read_ledger(tmp_path)


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / RUNS).mkdir(parents=True)
    (tmp_path / RUNS / "a.json").write_text("[]", "utf-8")
    with pytest.raises(InputError, match=r"a\.json: holds no seeds"):
        library(tmp_path)


@pytest.mark.parametrize("system", SYSTEMS)
def test_reference_tables_hold_both_sides_and_say_what_differs(held, system):
    _, theirs, ours, differs = zip(*(row for table in tables(system, held) for row in table.rows))
    assert ABSENT not in differs
    if system not in (
        "assignment",
        "D",
        "E",
    ):  # steps and epochs that the made-up run does not reach
        assert ABSENT not in ours
    assert sum(cell != ABSENT for cell in ours) >= 5
    if system != "assignment":
        assert sum(cell != ABSENT for cell in theirs) >= 0.8 * len(theirs)


def test_seeds_show_their_spread_and_figures_their_format(held):
    rows = {row[0]: row[1:3] for table in tables("A", held) for row in table.rows}
    assert rows["train loss"] == ("2.6974", "1.9600 ± 0.0707")
    assert rows["accumulation 8: s"][0] == "683"
    assert rows["sampling: BLEU"] == ("0.0224", "4.0000")


def test_headlines_name_every_source(held):
    assert {kind for kind, *_ in headlines(held)} == {
        published()[system]["kind"] for system in SYSTEMS
    }


def test_a_run_stands_beside_the_system_that_report_compare_names(recorded, held, params):
    def section(system):
        chosen = params | {"report": params["report"] | {"compare": system}}
        return str(published_section(with_library(read_run(recorded, chosen), recorded)))

    assert "This run beside" not in section("none")
    assert "This run beside the course report (B)" in section("B")
    beside_a = tables("A", held, read_run(recorded, params))
    assert "7.10" in {row[2] for row in beside_a[0].rows}


def test_sections_show_tables_studies_and_ledger(recorded, params):
    renew(recorded)
    params = params | {"report": params["report"] | {"compare": "A"}}
    run = with_library(read_run(recorded, params), recorded)
    text = str(published_section(run))
    assert "This run beside the course report (A)" in text
    assert "Study positions: Can the model do without positions?" in text
    assert "Answer of the homework notebook (E): no." in text
    assert "nothing is learned above 0.003" in text
    assert "as above" in text
    shown = str(ledger(run))
    assert "85 claims" in shown
    assert "8 x 37 = 296." in shown


def test_without_a_ledger_the_page_says_so(run, tmp_path, params):
    run = with_library(run, tmp_path)
    assert "docs/ledger.yaml is missing" in run.problems["ledger"]
    assert ledger(run) == []
    assert published_section(Run(params, {}, {})) == []

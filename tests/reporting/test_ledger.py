"""The ledger: every claim is decided by files, and no figure in it was typed."""

import copy
import json
import re
from pathlib import Path

import pytest

from tinylm.base.config import InputError, parse_yaml
from tinylm.presets.write import preset_text
from tinylm.reporting.expressions import evaluate, fill, parse, paths, places, without_places
from tinylm.reporting.ledger import NOT_RUN, STATUSES, counts, decide, entries, names_for, read_ledger
from tinylm.reporting.library import RUNS, STUDIES, SYSTEMS, library, published
from tinylm.reporting.recording import gather
from tinylm.reporting.reference_sections import ledger, with_library
from tinylm.reporting.reference_sections import published as published_section
from tinylm.reporting.references import headlines, recorded_tables, run_tables
from tinylm.reporting.seeds import BadExpression
from tinylm.reporting.sources import Run, read_run
from tinylm.reporting.wording import ABSENT
from tinylm.studies.study_plan import read_studies, summed_up

ROOT = Path(__file__).parents[2]
CLAIMS = read_ledger(ROOT)
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
                row = value["settings"][0] | {"new_tokens": new_tokens, "cache": cache, "cache_mib": 2.0}
                value["settings"].insert(0, row | {"tokens_per_s": 900.0 if cache else 300.0})

    def ckpt(value: dict) -> None:
        for recompute in (True, False):
            row = {"layers": 3, "recompute": recompute, "peak_mib": 90 if recompute else 200}
            value["settings"].append(row | {"step_s": 0.4 if recompute else 0.3})

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
    edit(folder, "metrics/train.json", train)
    edit(folder, "metrics/evaluate.json", evaluated)
    edit(folder, "metrics/vocab.json", lambda value: value.update(sequence_length={"mean": 170.0}))
    with (folder / "plots/loss.csv").open("a", encoding="utf-8") as handle:
        handle.write("0,0,held-out,11.01\n500,90,held-out,3.1\n500,90,train,3.0\n")


@pytest.fixture
def recorded(run_folder, params):
    """A folder in which every preset and every study is recorded, with two seeds each."""
    complete(run_folder)
    (run_folder / RUNS).mkdir(parents=True)
    (run_folder / STUDIES).mkdir()
    (run_folder / "docs/ledger.yaml").write_bytes((ROOT / "docs/ledger.yaml").read_bytes())
    for system in SYSTEMS:
        preset = published()[system]["preset"]
        chosen = parse_yaml(preset_text(preset), preset)
        entry = {"date": "2025-01-02", "commands": [], **gather(read_run(run_folder, chosen))}
        other = copy.deepcopy(entry)
        other["metrics"]["train"]["train_loss"] += 0.1
        value = {"name": preset, "preset": preset, "params": chosen, "seeds": {"1": entry, "2": other}}
        (run_folder / RUNS / f"{preset}.json").write_text(json.dumps(value), "utf-8")
    for study in read_studies().values():
        (run_folder / STUDIES / f"{study.name}.json").write_text(json.dumps(study_record(study)), "utf-8")
    return run_folder


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
        "name": study.name,
        "preset": study.preset,
        "question": study.question,
        "system": study.system,
        "answer": study.answer,
        "seeds": [1, 2],
        "commands": [f"tinylm study {study.name}"],
        "conditions": {"cores": 2, "threads": 1},
        "date": "2025-01-02",
        "data": {"unigram_loss": 5.5},
        "settings": summed_up(study, runs),
    }


def test_there_are_many_claims_of_every_system():
    assert len(CLAIMS) >= 30
    assert {claim.system for claim in CLAIMS} == set(SYSTEMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_every_claim_renders_with_the_repository_s_files(claim):
    entry = decide(claim, library(ROOT))
    assert entry.status in STATUSES
    assert entry.claim
    assert entry.command.startswith("tinylm ")
    assert "{" not in entry.claim + entry.evidence


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_no_figure_is_typed(claim):
    for text in (claim.claim, *claim.evidence):
        assert not re.search(r"\d", NAMES_WITH_DIGITS.sub("", without_places(text))), text
        for place in places(text):
            assert paths(place) or parse(place).__class__.__name__ == "Name", f"{place} reads no file"


def test_the_reader_of_typed_figures_sees_one():
    assert re.search(r"\d", NAMES_WITH_DIGITS.sub("", without_places("BLEU-4 of {x} and 0.3")))


def test_with_everything_recorded_every_rule_and_every_sentence_finds_its_figures(recorded):
    known = library(recorded)
    for claim in read_ledger(recorded):
        names = names_for(claim.system, known)
        for rule in claim.decide.values() if isinstance(claim.decide, dict) else ():
            assert evaluate(rule, names) in (True, False), claim.name
        for text in (claim.claim, *claim.evidence):
            assert fill(text, names), claim.name
    assert NOT_RUN not in counts(entries(recorded, known))


def test_nothing_recorded_is_said_and_never_a_value(tmp_path):
    known = library(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/ledger.yaml").write_bytes((ROOT / "docs/ledger.yaml").read_bytes())
    found = {entry.name: entry for entry in entries(tmp_path, known)}
    assert found["E-epoch-1-perplexity"].status == NOT_RUN
    assert found["E-epoch-1-perplexity"].evidence == ""
    assert found["E-epoch-1-perplexity"].command == "tinylm study epoch-1"
    assert found["A-level"].command == "tinylm preset word-50k && dvc repro && tinylm record word-50k"
    assert found["A-cache-totals"].status == "contradicted"
    assert "2.9" in found["A-cache-totals"].evidence
    assert found["A-cache-totals"].command == "tinylm record --ledger"
    assert found["B-head-width"].evidence == "8 x 37 = 296."
    assert found["A-share-of-data"].evidence == "They are 2.4%."


def test_the_status_follows_the_figures(recorded):
    known = library(recorded)
    by_name = {claim.name: claim for claim in CLAIMS}
    assert decide(by_name["A-share-of-data"], known).status == "contradicted"
    known["published"]["A"]["data"]["stories"] = 525000
    assert decide(by_name["A-share-of-data"], known).status == "reproduced"
    assert decide(by_name["E-epoch-1-perplexity"], known).status == "reproduced"
    known["published"]["E"]["epochs"][0]["perplexity"] = 60.0
    assert decide(by_name["E-epoch-1-perplexity"], known).status == "contradicted"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {system: A, claim: x, decide: {perhaps: 1 > 2}, evidence: x}", "perhaps"),
        ("a: {system: A, claim: x, decide: reproduced, evidence: x}", "'reproduced'"),
        ("a: {system: A, claim: x, evidence: x}", "allowed: a mapping with"),
    ],
)
def test_a_line_that_is_not_whole_is_named(tmp_path, text, message):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/ledger.yaml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        read_ledger(tmp_path)


def test_a_rule_that_cannot_be_evaluated_is_named(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/ledger.yaml").write_text(
        "odd: {system: A, claim: x, decide: {reproduced: open(1)}, evidence: x}", "utf-8"
    )
    with pytest.raises(BadExpression, match=r"docs/ledger.yaml: odd: .*open"):
        entries(tmp_path, library(tmp_path))


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / RUNS).mkdir(parents=True)
    (tmp_path / RUNS / "a.json").write_text("[]", "utf-8")
    with pytest.raises(InputError, match=r"a\.json: holds no seeds"):
        library(tmp_path)


@pytest.mark.parametrize("system", SYSTEMS)
def test_reference_tables_hold_both_sides_and_say_what_differs(recorded, system):
    rows = [row for table in recorded_tables(system, library(recorded)) for row in table.rows]
    assert all(row.differs != ABSENT for row in rows)
    if system not in ("assignment", "D", "E"):  # steps and epochs that the made-up run does not reach
        assert all(row.ours != ABSENT for row in rows)
    assert sum(row.ours != ABSENT for row in rows) >= 5
    if system != "assignment":
        assert sum(row.theirs != ABSENT for row in rows) >= 0.8 * len(rows)


def test_seeds_show_their_spread_and_figures_their_format(recorded):
    rows = {row.figure: row for table in recorded_tables("A", library(recorded)) for row in table.rows}
    assert rows["train loss"].theirs == "2.6974"
    assert rows["train loss"].ours == "1.9600 ± 0.0707"
    assert rows["accumulation 8: s"].theirs == "683"
    assert rows["sampling: BLEU"].cells()[1:3] == ("0.0224", "4.0000")


def test_headlines_name_every_source(recorded):
    known = library(recorded)
    assert {kind for kind, _ in headlines(known)} == {known["published"][system]["kind"] for system in SYSTEMS}


def test_a_run_stands_beside_the_system_that_report_compare_names(recorded, params):
    known = library(recorded)
    assert run_tables(read_run(recorded, params), known) == []
    params = params | {"report": params["report"] | {"compare": "B"}}
    tables = run_tables(read_run(recorded, params), known)
    assert {table.kind for table in tables} == {"course report (B)"}
    beside_a = run_tables(read_run(recorded, params | {"report": {"compare": "A"}}), known)
    assert "7.10" in {row.ours for row in beside_a[0].rows}


def test_sections_show_tables_studies_and_ledger(recorded, params):
    params = params | {"report": params["report"] | {"compare": "A"}}
    run = with_library(read_run(recorded, params), recorded)
    text = str(published_section(run))
    assert "This run beside the course report (A)" in text
    assert "Study positions: Can the model do without positions?" in text
    assert "Answer of the homework notebook (E): no." in text
    assert "nothing is learned above 0.003" in text
    assert "as above" in text
    claims = str(ledger(run))
    assert f"{len(CLAIMS)} claims" in claims
    assert "8 x 37 = 296." in claims


def test_without_a_ledger_the_page_says_so(run_folder, params):
    run = with_library(read_run(run_folder, params), run_folder)
    assert "docs/ledger.yaml is missing" in run.problems["ledger"]
    assert ledger(run) == []
    assert published_section(Run(params, {}, {})) == []

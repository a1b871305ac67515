"""tinylm publish on a small run and a hub in memory: one commit or none, never the token; and the model card."""

import ast
import dataclasses
import re
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import yaml
from huggingface_hub import ModelCard, constants
from huggingface_hub.errors import HfHubHTTPError
from markdown_it import MarkdownIt

from tests.exchange.publishing.conftest import write, write_lock
from tests.support.clone import set_params
from tests.support.folders import contents
from tests.support.runs import part
from tests.support.small import model_settings, words_of
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.cli import main
from tinylm.cli.run_state import read_run_state
from tinylm.exchange.card import Publication, data_licence, write_card
from tinylm.exchange.publish import upload
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.run.downloaded import Downloaded, SplitCounts
from tinylm.run.evaluated import Baselines, Divergence, Evaluated, Loss, Samples
from tinylm.run.finished_run import RESULTS as KINDS
from tinylm.run.finished_run import FinishedRun, Tables
from tinylm.run.interval import Interval
from tinylm.run.result_files import to_mapping
from tinylm.run.trained import Trained, TrainTimes
from tinylm.run.vocabulary import EmbeddingSource, Vocabulary

TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"
TEXT = "once upon a time the cat said hello to the dog and the dog sat down near the tree"
RESULTS = {
    "data/figures/train.json": to_mapping(part(Trained, parameters=4711, tokens=999)),
    "data/figures/evaluate.json": to_mapping(
        part(Evaluated, perplexity=5.813, perplexity_interval=[5.7, 5.9])
    ),
    "data/times/train.json": to_mapping(part(TrainTimes, seconds=3.0)),
    "plots/loss.csv": "step,tokens,series,value\n1,100,train,8\n2,200,train,6\n3,300,train,5\n",
    "report/index.html": "<p>the report",
    "report/report.pdf": "%PDF",
}
STAGES = {
    "train": (
        ["model", "train"],
        [],
        ["models", "data/figures/train.json", "data/times/train.json", "plots/loss.csv"],
    ),
    "evaluate": (["evaluate"], ["models"], ["data/figures/evaluate.json"]),
    "report": (["report", "evaluate"], ["models"], ["report"]),
}
OLD = {"pipeline/params.yaml": b"old", "config.json": b"old", "report/old.html": b"old"}
THEIRS = {"LICENSE": b"MIT", "img/cat.png": b"cat"}


@pytest.fixture
def here(tmp_path, monkeypatch, params):
    """A folder with a small trained model, its results and its report; the working folder."""
    tokenizer = words_of([TEXT])
    tokenizer.save(tmp_path / "data/vocab/tokenizer.json")
    model = TinyLM(model_settings(heads=2, context=32), torch.randn(len(tokenizer), 20))
    save_model(tmp_path / "models", model, layout="stories")
    params["runtime"]["threads"] = 1
    params["model"] |= {"layers": 2, "context": 32}
    write(tmp_path, "params.yaml", yaml.safe_dump(params))
    for name, value in RESULTS.items():
        write(tmp_path, name, value)
    write_lock(tmp_path, STAGES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return tmp_path


def test_published_is_what_the_dry_run_showed_without_the_hub(here, hub, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["publish", REPO, "--dry-run", "--license", "mit"]) == 0
    shown = contents(here / "exports" / REPO)
    out = capsys.readouterr().out
    assert hub.tokens == []
    assert all(name in out for name in shown)
    assert {"README.md", "model.safetensors", "tokenizer.json"} <= set(shown)
    sources = {"tinylm/model.safetensors": "models/model.safetensors"}
    sources |= {f"report/{name}": f"report/{name}" for name in ("index.html", "report.pdf")}
    pipeline = ["params.yaml", "dvc.lock", *(name for name in RESULTS if name.startswith("data/"))]
    sources |= {f"pipeline/{name}": name for name in [*pipeline, "plots/loss.csv"]}
    for name, source in sources.items():
        assert shown[name] == (here / source).read_bytes()
    folders = ("report/", "pipeline/")
    assert {name for name in shown if name.startswith(folders)} <= set(sources)
    assert b"5.70 to 5.90" in shown["README.md"]
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert main(["publish", REPO, "--license", "mit"]) == 0
    assert hub.repos[REPO][-1] == hub.repos[REPO][0] | shown
    assert f"https://hub/{REPO}: commit 2" in capsys.readouterr().out


@pytest.mark.parametrize("stage", KINDS)
def test_the_report_is_stale_if_a_stage_that_it_shows_is(here, monkeypatch, stage):
    status = ({stage: "section evaluate has changed"}, {})
    monkeypatch.setattr("tinylm.experiments.provenance.read_status", lambda: status)
    assert set(read_run_state().stale) == {stage, "report"}


def test_the_token_is_in_no_output_and_no_file(here, hub, capsys, monkeypatch):
    monkeypatch.setenv("TINYLM_DEBUG", "1")
    hub.error = ConnectionError(f"no, {TOKEN}")
    assert main(["publish", REPO, "--private"]) == 1
    hub.error = None
    assert main(["publish", REPO, "--private"]) == 0
    streams = capsys.readouterr()
    assert TOKEN not in streams.out + streams.err
    written = [*contents(here).values(), *hub.repos[REPO][-1].values()]
    assert not [content for content in written if TOKEN.encode() in content]
    assert [message.split()[0] for message in hub.messages] == ["tinylm"]
    assert TOKEN not in hub.messages[0]


def test_the_card_is_used_as_typed(here, monkeypatch, capsys):
    """Inside exports/, REPO is a path, so that the lines run before anything is published."""
    assert main(["publish", REPO, "--dry-run"]) == 0
    card = (here / "exports" / REPO / "README.md").read_text("utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(here / "exports")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    capsys.readouterr()
    exec(code, {})
    text = capsys.readouterr().out.strip()
    assert text.startswith("once upon a time ")
    assert set(text.split()) <= set(TEXT.split())


def test_without_a_name_or_a_token_nothing_is_written(here, hub, monkeypatch, capsys):
    for repo in ("stories", "a/b/c", "../x", "me/a--b", "me/a.git", "me/x\n"):
        assert main(["publish", repo, "--dry-run"]) == 2
        assert "REPO" in capsys.readouterr().err
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(here / "token"))
    assert main(["publish", REPO]) == 2
    assert "HF_TOKEN" in capsys.readouterr().err
    assert not (here / "exports").exists()
    write(here, "token", f"{TOKEN}\n")
    assert main(["publish", REPO]) == 0
    assert hub.tokens == [TOKEN]


def test_what_other_parameters_or_hands_made_is_not_published(here, capsys):
    set_params(here, {"evaluate.new_tokens": 7})
    write(here, "data/figures/evaluate.json", {"of": "other code"})
    assert main(["publish", REPO, "--dry-run"]) == 0
    assert "left out: evaluate: " in capsys.readouterr().out
    written = contents(here / "exports" / REPO)
    assert b"5.81" not in written["README.md"]
    assert not [name for name in written if "evaluate" in name or name.startswith("report/")]
    write(here, "models/another.json", "[]")
    assert main(["publish", REPO, "--dry-run"]) == 2
    assert "models" in capsys.readouterr().err


def test_data_of_an_unknown_licence(here, hub, capsys):
    set_params(here, {"data.source": "local", "data.path": "stories.txt"})
    assert main(["publish", REPO]) == 2
    assert "--data-license NAME" in capsys.readouterr().err
    assert hub.repos == {}
    assert main(["publish", REPO, "--data-license", "cc-by-4.0"]) == 0
    assert b"cc-by-4.0" in hub.repos[REPO][-1]["README.md"]


# upload


@pytest.fixture
def folder(tmp_path):
    """A small publication."""
    for name in ("README.md", "config.json", "model.safetensors", "pipeline/params.yaml"):
        write(tmp_path / "new", name, name)
    return tmp_path / "new"


def test_one_commit_replaces_what_was_published_and_leaves_what_is_the_users(hub, folder):
    hub.repos[REPO] = [OLD | THEIRS]
    first = upload(folder, REPO, False, "tinylm abc", TOKEN)
    files = {name: data for name, data in hub.repos[REPO][-1].items() if name != ".gitattributes"}
    assert files == contents(folder) | THEIRS
    assert upload(folder, REPO, False, "tinylm abc", TOKEN) == first
    assert len(hub.repos[REPO]) == 2


def test_a_public_repository_and_somebody_elses_are_refused(hub, folder):
    for files, private in ((OLD, True), ({"config.json": b"theirs"}, False)):
        hub.repos[REPO] = [files]
        with pytest.raises(InputError):
            upload(folder, REPO, private, "tinylm abc", TOKEN)
        assert hub.repos[REPO] == [files]


@pytest.mark.parametrize(("status", "kind"), [(403, InputError), (412, CommandFailed)])
def test_a_refusal_is_one_line_without_the_token(hub, folder, status, kind):
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    hub.error = HfHubHTTPError(f"no,\n{TOKEN}", response=response)
    with pytest.raises(kind, match=r"^[^\n]*$") as raised:
        upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert TOKEN not in str(raised.value)


INTERVAL = Interval(0.1579, 0.1483, 0.1667)


@pytest.fixture
def run(params) -> FinishedRun:
    """A run with numbers that occur nowhere else in the code."""
    split = SplitCounts(1117, 5003)
    samples = [{"prompt": "once", "continuation": "the *first* | <b>one</b>"}]
    return FinishedRun(
        params=params,
        download=part(
            Downloaded, source="storybook", splits={"train": split, "held_out": split}, dropped={}
        ),
        vocab=part(Vocabulary, size=4231, embedding=part(EmbeddingSource, width=128)),
        train=part(Trained, parameters=1234567, tokens=2718281),
        evaluate=part(
            Evaluated,
            perplexity=5.813,
            truth=Divergence(left_out="no story fits the context"),
            perplexity_interval=[5.711, 5.917],
            raw_bits_per_byte=0.512,
            baselines=part(Baselines, unigram=Loss(601.9, 6.4, 1)),
            samples=part(Samples, bleu4=INTERVAL),
        ),
        tables=Tables(samples=pd.DataFrame(samples)),
    )


@pytest.fixture
def publication(params) -> Publication:
    return Publication(
        repo="me/stories",
        format="transformers",
        licence="mit",
        data=data_licence(params["data"], None),
        commit="0123456789ab",
        models_md5="c0ffee.dir",
        report=True,
        left_out=(),
        lacks=(),
    )


def sections(card: str) -> tuple[dict, dict[str, str]]:
    """(head, text by second-level title)."""
    _, head, body = card.split("---\n", 2)
    titles = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    return yaml.safe_load(head), dict(zip(titles[1::2], titles[2::2], strict=True))


def test_numbers_and_intervals_are_those_of_the_files(run, publication):
    card = write_card(run, publication)
    data = ModelCard(card).data  # as huggingface_hub reads the head
    assert (data.license, data.language) == ("mit", ["en"])
    _, text = sections(card)
    assert "| evaluation perplexity | 5.81 | 5.71 to 5.92 |" in text["Metrics"]
    assert "| BLEU-4 of its continuations | 0.158 | 0.148 to 0.167 |" in text["Metrics"]
    assert "| unigram: token frequencies | 602 | 6.400 |" in text["Metrics"]
    assert "1.23 million parameters" in text["Limits"]
    assert "vocabulary has 4,231 ids" in text["Data"]
    assert "| 1,117 |" in text["Data"]
    assert "mit" in text["Licence of the data"]
    assert "<b>" not in text["What it wrote"]
    assert "the *first* | &lt;b&gt;" in MarkdownIt().render(text["What it wrote"])


@pytest.mark.parametrize("form", ["transformers", "tinylm"])
def test_how_to_use_it_is_python_whatever_the_prompt(run, publication, form):
    prompt = "a \"b\" \\ 'c'\n```"
    run.params["runtime"]["sample_prompt"] = prompt
    changed = dataclasses.replace(publication, format=form)
    head, text = sections(write_card(run, changed))
    (code,) = re.findall(r"```python\n(.*?)^```$", text["How to use it"], re.DOTALL | re.MULTILINE)
    constants = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert prompt in constants
    assert constants.count("me/stories") == 2
    assert code.count("trust_remote_code=True") == (2 if form == "tinylm" else 0)
    assert ("custom_code" in head["tags"]) == (form == "tinylm")


@pytest.mark.parametrize(
    ("prompts", "place"),
    [
        ("starts", "from the first evaluation story"),
        ("stream", "from a random place in the evaluation text"),
    ],
)
def test_the_shown_text_goes_on_from_where_its_prompt_was_taken(run, publication, prompts, place):
    run.params["evaluate"]["prompts"] = prompts
    _, text = sections(write_card(run, publication))
    assert f"Continuing “once”, {place} (not cherry-picked):" in text["What it wrote"]


def test_what_is_missing_or_lacking_is_named(run, publication):
    changed = dataclasses.replace(
        publication, left_out=("evaluate: old",), lacks=("decode.fallback_mass",), licence=None
    )
    without = dataclasses.replace(run, evaluate=None)
    head, text = sections(write_card(without, changed))
    assert "evaluate: old" in text["Metrics"]
    assert "evaluation perplexity" not in text["Metrics"]
    assert "decode.fallback_mass" in text["Limits"]
    assert "license" not in head


def test_the_data_of_a_world_are_its_stories_whose_licence_is_the_users():
    found = data_licence({"source": "world", "path": "inputs/granja"}, "cc0-1.0")
    assert found.data == "stories that tinylm generates from the world granja"
    assert found.name == "cc0-1.0"

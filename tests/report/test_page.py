"""The page: complete, offline, escaped, the same bytes twice, and whole where files are missing."""

import html.parser
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.report.conftest import SETTINGS
from tests.support.report import report_settings
from tinylm.report.drawing import to_png
from tinylm.report.heads import NAMES
from tinylm.report.page import build_page
from tinylm.report.pictures import PICTURES, baseline_rows, draw_pictures, page_svgs
from tinylm.report.run_sections import byline
from tinylm.report.sections import sections, write_parts
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import FILES, Run, read_run
from tinylm.vocab.encoding import cut_stream
from tinylm.vocab.token_store import write_store

VOID = {"meta", "link", "br", "image", "path", "rect", "use", "img"}


class _Checker(html.parser.HTMLParser):
    """Collects ids, and tags that are closed in the wrong order."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [value for key, value in attrs if key in ("href", "src") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def _page(run: Run, svgs: dict[str, str], settings: ReportSettings = SETTINGS) -> str:
    return build_page(write_parts(run, settings), settings.title, svgs)


def _check(page: str) -> _Checker:
    checker = _Checker()
    checker.feed(page)
    return checker


@pytest.fixture(scope="module")
def full(written: tuple[Path, Run]) -> tuple[Path, str]:
    return written[0], (written[0] / "report/index.html").read_text(encoding="utf-8")


def test_page_is_well_formed_and_every_link_leads_somewhere(full):
    checker = _check(full[1])
    assert checker.wrong == []
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    inner = {link[1:] for link in checker.links if link.startswith("#")}
    assert inner <= set(checker.ids)
    assert {section.anchor for section in sections(SETTINGS)} <= inner


def test_page_loads_nothing_from_outside(full):
    checker = _check(full[1])
    assert "script" not in checker.tags
    assert all(link.startswith(("#", "data:")) for link in checker.links)
    assert not re.search(r"https?://|url\((?!#)|@import", full[1])


def test_full_run_shows_every_section_picture_and_head(full):
    page = full[1]
    assert "Not shown" not in page
    assert page.count('<svg class="chart"') == len(PICTURES) + len(NAMES)
    assert page.count('<svg class="head"') == 2 * 3 * (
        2 + 2
    )  # layers * heads * (sentences + moments)
    assert "perplexity 7.10 against 9.40, lower by the factor 1.32" in page
    assert page.count("aria-label=") >= page.count("<svg")
    assert "recompute" in page


def test_titles_of_maps_name_the_next_token_and_its_probability(full):
    assert (
        full[1].count("<figcaption>layer 1, head 2 · next: “and” (73.1 %)</figcaption>") == 2
    )  # sentences
    for title in (
        "epoch 0.1 · layer 2, head 3 · next: “a” (2.0 %)",
        "epoch 0.5 · layer 2, head 3 · next: “and” (40",
    ):
        assert f"<figcaption>{title}" in full[1]


def test_attention_over_training_is_silent_where_no_moment_was_kept(full, params):
    asked = read_run(full[0].parent, params)
    assert "moments" in asked.problems
    not_asked = read_run(full[0].parent, params | {"train": params["train"] | {"keep_epochs": []}})
    assert "moments" not in not_asked.problems
    assert "moments" not in _page(not_asked, {})
    assert "Attention over training" in full[1]


def test_heads_are_called_by_their_role_or_idle(full):
    page = full[1]
    for cells in (
        ("1, 1", "previous token", "0.85", "0.20", "0.400", "0.390 to 0.410", "needed"),
        (
            "2, 3",
            "(previous token)",
            "0.20",
            "0.20",
            "0.000",
            "−0.010 to 0.010",
            "idle: no measurable change",
        ),
    ):
        row = re.search(
            rf'<tr><th scope="row">{cells[0]}</th><td class="prose" data-label="role">(.*?)</tr>',
            page,
        )
        assert row
        assert re.sub(r"(<[^>]*>)+", "|", row[1]).strip("|").split("|") == list(cells[1:])
    assert "<li>sentence start: the tokens hold no sentence ends</li>" in page
    chart = re.search(r'aria-label="(Loss added by ablating a head[^"]*)"', page)
    assert chart
    assert "layer 2, head 3 (idle) 0.000" in chart[1]
    assert "layer 1, head 2 (subject-verb) 0.200" in chart[1]


def test_greedy_tokens_are_shaded_by_their_probability(full):
    assert full[1].count("<strong>the fox</strong> ") == 2  # the same prompt twice
    assert '<span style="--p:96%">ran<sub>93</sub></span>' in full[1]  # the root of 0.93
    assert '<span style="--p:5%">&lt;eos&gt;<sub>&lt;1</sub></span>' in full[1]


def test_outputs_stand_side_by_side_and_equal_methods_share_a_column(run_folder, params):
    table = pd.read_csv(run_folder / "data/beam_bench/outputs.csv")
    table.loc[table.method == "beam 1", "text"] = table[table.method == "greedy"].text.to_numpy()
    table.to_csv(run_folder / "data/beam_bench/outputs.csv", index=False)
    page = _page(read_run(run_folder, params), {})
    found = re.search(
        r"<caption>Outputs of every method for the same prompts</caption><thead><tr>(.*?)</tr>",
        page,
    )
    assert found
    heads = re.findall(r">([^<>]+)</th>", found[1])
    assert heads == ["prompt", "reference", "sampling", "greedy, beam 1", "beam 5", "beam 10"]


def test_a_stream_that_was_cut_says_what_evaluation_is(full, params):
    run = read_run(full[0], params | {"data": params["data"] | {"held_out": "tokens"}})
    run.found["vocab"]["split"] = {
        "by": "tokens",
        "notes": ["overlap 50", "evaluation is the held-out tokens"],
    }
    page = _page(run, {})
    assert (
        "The one stream of tokens was cut: overlap 50; evaluation is the held-out tokens." in page
    )
    assert "text of its own, or the held-out tokens" in page
    assert "text that training never sees" not in page
    assert "text that training never sees" in full[1]


def test_a_lead_does_not_call_the_held_out_end_of_the_stream_unseen(full, params, tmp_path):
    run = read_run(full[0], params)
    assert "On text that it never saw" in _page(run, {})
    for split, evaluation in (("train", [[0, 5, 6, 7, 8, 1]] * 9), ("evaluation", [])):
        write_store(tmp_path, split, evaluation, 9)
    run.found["vocab"]["split"] = cut_stream(tmp_path, 0.4, 2, vectors=True)
    page = _page(run, {})
    assert "never saw" not in page
    lead = "the held-out split as well, the vocabulary was made with it in view, windows straddle the cut by 2 tokens"
    assert f"On the end of the token stream (which is {lead}) its perplexity is 7.10" in page


def test_a_run_that_was_told_to_stop_did_not_run_to_its_budget(full, params):
    assert "ran to its budget" in full[1]
    page = _page(read_run(full[0], params | {"train": params["train"] | {"stop_after": 1000}}), {})
    assert "ended at stop_after" in page
    assert "ran to its budget" not in page


def test_windows_stand_beside_the_baselines_with_targets_scored_once(full, params):
    run = read_run(full[0], params)
    assert "scored once" not in _page(run, {})
    run.found["evaluate"]["once"] = {"perplexity": 8.2, "nats_per_token": 2.104, "tokens": 900}
    assert dict(baseline_rows(run))["this model"]["perplexity"] == 8.2
    picture = PICTURES["baselines"][1](run)
    page = _page(run, page_svgs({"baselines": picture}))
    assert "its perplexity is 7.10: " in page
    assert (
        "windows that do not overlap, each word scored once, it is 8.20; for comparison, scored once as well"
        in page
    )
    assert "over every window of stride 1 it is 7.10" in page
    assert picture.alt.startswith("Perplexity on evaluation, each target scored once")
    assert "this model 8.20" in picture.alt


def test_protocol_sequence_length_and_coverage_are_said(full):
    assert "Protocol: 50 starts of stories, 5 tokens each, continued at temperature 0.8." in full[1]
    assert "<dt>tokens per story without special tokens, mean</dt><dd>94.2</dd>" in full[1]
    assert "<dt>of train&#x27;s text covered by the vocabulary</dt><dd>100.0 %</dd>" in full[1]


def test_the_precision_is_what_auto_stood_for(full, params):
    assert params["train"]["precision"] == "auto"
    assert re.search(r"The budget is .{1,80}, in bf16, with seed 1\.", full[1])


def test_every_way_of_recomputation_has_its_row_under_its_depth(full):
    table = full[1].partition(">activations</th>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr><th[^>]*>(\d)</th><td[^>]*>([^<]+)</td>", table)
    assert rows == [(str(n), way) for n in (2, 4, 8) for way in ("recompute", "plain", "sqrt")]


def test_pictures_of_a_full_run_are_written(full):
    pictures = {path.name: path.read_bytes() for path in (full[0] / "plots/pictures").iterdir()}
    assert {f"{name}.png" for name in PICTURES} | {"attention_1.png", "attention_2.png"} <= set(
        pictures
    )
    assert all(content.startswith(b"\x89PNG") for content in pictures.values())
    assert not any(b"tIME" in content or b"Software" in content for content in pictures.values())


def test_same_run_gives_the_same_bytes(full, written):
    run = written[1]
    pictures = draw_pictures(run)
    assert _page(run, page_svgs(pictures)) == full[1]
    for name in ("loss_tokens", "beam_bleu", "heads_previous"):
        assert (
            to_png(pictures[name].figure) == (full[0] / f"plots/pictures/{name}.png").read_bytes()
        )


def test_samples_in_view_are_as_many_as_asked(full, params):
    run = read_run(full[0], params)
    assert "4 further continuations" in _page(run, {}, report_settings(title="t", samples=8))
    assert "12 further continuations" in _page(run, {}, report_settings(title="t", samples=0))
    assert "further continuations" not in _page(run, {}, report_settings(title="t", samples=12))


def _lacking(name: str) -> str:
    """What the page says where a file of FILES is not there: times are not made by a stage, they are measured."""
    path, stage = FILES[name]
    if name.endswith("_time"):
        return f"{path}: this result was not measured in this folder; dvc repro -f -s {stage} measures it"
    return f"{path} is missing; dvc repro {stage} makes it"


@pytest.mark.parametrize("name", FILES)
def test_page_without_one_file_names_it_and_its_stage(full, tmp_path, params, name):
    shutil.copytree(full[0], tmp_path / "run", ignore=shutil.ignore_patterns("pictures", "report"))
    (tmp_path / "run" / FILES[name][0]).unlink()
    run = read_run(tmp_path / "run", params)
    page = _page(run, {})
    assert f'<p class="missing">Not shown: {_lacking(name)}.</p>' in page
    assert _check(page).wrong == []
    assert all(
        run.problems.keys() == {name} or draw(run) is not None
        for needs, draw in PICTURES.values()
        if name not in needs
    )
    assert all(draw(run) is None for needs, draw in PICTURES.values() if needs == (name,))


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": 1', b"\xff\xfe\x00", b"[1, 2]", b"null", b"a,b\n1,2,3\n4"]
)
def test_damaged_files_are_named_and_do_not_stop_the_page(full, tmp_path, params, content):
    for path, _ in FILES.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    run = read_run(tmp_path, params)
    assert "attention" in run.problems
    page = _page(run, page_svgs(draw_pictures(run)))
    assert _check(page).wrong == []


def test_page_of_no_run_at_all_says_what_is_missing(tmp_path, params):
    run = read_run(tmp_path, params)
    assert draw_pictures(run) == {}
    page = _page(run, {})
    assert all(f"Not shown: {_lacking(name)}." in page for name in FILES)


def test_text_from_data_is_escaped_and_hidden_characters_are_shown(run_folder, params):
    hostile = '<script>alert("1")</script>\u202eevil\u0007 & $x_1$ <b>'
    table = pd.read_csv(run_folder / "data/evaluate/samples.csv")
    table["prompt"] = table["reference"] = table["continuation"] = hostile
    table.to_csv(run_folder / "data/evaluate/samples.csv", index=False)
    beams = pd.read_csv(run_folder / "data/beam_bench/outputs.csv").assign(
        text=hostile, prompt=hostile
    )
    beams.to_csv(run_folder / "data/beam_bench/outputs.csv", index=False)
    heads = pd.read_csv(run_folder / "data/evaluate/heads.csv").assign(interpretation=hostile)
    heads.to_csv(run_folder / "data/evaluate/heads.csv", index=False)
    told = {"epochs": 1, "prompt": hostile, "text": hostile, "finished": True}
    pd.DataFrame([told]).to_csv(run_folder / "data/evaluate/training_samples.csv", index=False)
    curve = pd.read_csv(run_folder / "plots/loss.csv").assign(series=hostile)
    curve.to_csv(run_folder / "plots/loss.csv", index=False)
    words = np.array([hostile, "b"])
    np.savez(
        run_folder / "data/evaluate/attention.npz",
        words_1=words,
        maps_1=np.eye(2, dtype="f4")[None, None],
    )
    hostile_params = params | {"data": {hostile: hostile}}
    run = read_run(run_folder, hostile_params)
    pictures = draw_pictures(run)
    page = _page(run, page_svgs(pictures), report_settings(title=hostile, samples=8))
    assert "script" not in _check(page).tags
    assert "<b>" not in page
    assert "\u202e" not in page
    assert "\u0007" not in page
    assert "⟨U+202E⟩evil⟨U+0007⟩" in page
    assert to_png(pictures["loss_tokens"].figure).startswith(b"\x89PNG")


def test_missing_and_null_figures_are_left_out(tmp_path, params):
    run = Run(
        params,
        {"train": {"updates": None}, "evaluate": {"perplexity": None, "baselines": None}},
        {},
    )
    page = _page(run, page_svgs(draw_pictures(run)))
    assert "None" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert "nan" not in page


def test_style_sheet_serves_dark_print_and_narrow_screens(full):
    for rule in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem"):
        assert rule in full[1]
    used, defined = (
        set(re.findall(r"var\((--[\w-]+)\)", full[1])),
        set(re.findall(r"(--[\w-]+):", full[1])),
    )
    assert used <= defined


def test_author_and_hub_path_stand_under_the_title(full, params):
    run = read_run(full[0], params)
    assert "byline" not in full[1].partition("</style>")[2]
    named = report_settings(author="Ada <Lovelace>", hub_path="me/small-stories")
    page = build_page(write_parts(run, named), "A title", {}, byline=byline(named))
    head = page.partition("<header>")[2].partition("</header>")[0]
    assert re.findall("<p class=.byline.>(.*?)</p>", head) == [
        "Ada &lt;Lovelace&gt;",
        "The model on the Hugging Face hub: me/small-stories",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"author": " "}, "author = ' '"), ({"author": "a\nb"}, "author = 'a\\nb'"),
        ({"hub_path": "small-stories"}, "hub_path = 'small-stories'"), ({"hub_path": "me/a--b"}, "OWNER/NAME"),
        ({"prompts": ("a", " ")}, "prompts: text 2 is empty"), ({"sentences": ("",)}, "sentences: text 1 is empty")
    ],
)  # fmt: skip
def test_what_no_page_can_show_is_refused(changes, said):
    (problem,) = report_settings(**changes).problems()
    assert said in problem
    fine = report_settings(
        author="Zoë", hub_path="me/small-stories", prompts=("a",), sentences=("b c",)
    )
    assert fine.problems() == []

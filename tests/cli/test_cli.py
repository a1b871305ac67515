"""The command line on a tiny model: texts, streaming, exit codes."""

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st

import tinylm
from tests.drawn.drawing import FIELDS, TINY, settings_changes, values_of
from tests.support.clone import set_params
from tests.support.random_run import CONTEXT, DECODE, make_run
from tinylm.base.config import load_params
from tinylm.cli import main
from tinylm.cli.command import COMMANDS
from tinylm.cli.generate import SAMPLING
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.model.checkpoint import load_model
from tinylm.vocab.open_tokenizer import open_tokenizer


@pytest.fixture(params=["keep"])
def run_folder(request, tmp_path, monkeypatch):
    make_run(tmp_path, request.param)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return tmp_path


def parts():
    model, _ = load_model("models")
    return model, open_tokenizer("data/vocab/tokenizer.json")


def sampled(prompts, max_tokens=200, **changes):
    """Texts and generations by the functions below the command."""
    settings = DecodeSettings(**DECODE | changes)
    model, tokenizer = parts()
    ids = [[tokenizer.sos_id, *tokenizer.encode(prompt)] for prompt in prompts]
    decoder = Decoder(model=model, eos_id=tokenizer.eos_id, banned=banned_ids(tokenizer))
    continuations = generate(decoder, ids, settings, max_new_tokens=max_tokens, with_log_probs=True)
    pairs = zip(ids, continuations, strict=True)
    return [tokenizer.decode([*prompt, *new.ids]) for prompt, new in pairs], continuations


def refused(words, named, capsys):
    """Exit code 2 and one line that names what is wrong."""
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert named in captured.err


class Pieces(io.StringIO):
    """Standard output with what was visible at each flush."""

    def __init__(self):
        super().__init__()
        self.seen = [""]

    def flush(self):
        if self.getvalue() != self.seen[-1]:
            self.seen.append(self.getvalue())


@pytest.mark.parametrize("run_folder", ["keep", "drop"], indirect=True)
def test_one_prompt_streams_token_by_token(run_folder):
    target = Pieces()
    with contextlib.redirect_stdout(target):
        assert main(["generate", 'the cat said, "', "--max-tokens", "40"]) == 0
    (text,), (new,) = sampled(['the cat said, "'], 40)
    _, tokenizer = parts()
    prompt = [tokenizer.sos_id, *tokenizer.encode('the cat said, "')]
    grown = [tokenizer.decode([*prompt, *new.ids[:count]]) for count in range(len(new.ids) + 1)]
    steps = [step for number, step in enumerate(grown) if number == 0 or step != grown[number - 1]]
    assert len(steps) > 10
    assert target.seen[1 : len(steps) + 1] == steps
    assert target.getvalue() == text + "\n"


def option(name):
    """Any value of a decoding setting; often 0, which code easily mistakes for an option not given."""
    _, allowed = FIELDS[f"decode.{name}"]
    values = values_of(f"decode.{name}")
    return values | st.just(0) if allowed.holds(0) else values


OPTIONS = {name: option(name) for name in SAMPLING}


@drawn(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=settings_changes(("decode",)),
    options=st.fixed_dictionaries({}, optional=OPTIONS),
    further=st.sampled_from([[], ["--greedy"], ["--no-cache"], ["--step", "plain"]]),
    prompts=st.sampled_from([["the cat"], ["the cat", "a dog", "the cat"]]),
)
def test_an_option_replaces_its_setting_and_no_other(
    run_folder, changes, options, further, prompts
):
    if "--greedy" in further:
        options.pop("temperature", None)
    set_params(
        run_folder, {f"decode.{key}": each for key, each in TINY["decode"].items()} | changes
    )
    replaced = options | ({"temperature": 0.0} if "--greedy" in further else {})
    settings = load_params()["decode"] | replaced
    words = ["generate", *prompts, "--max-tokens", "40", *further]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(words) == 0
    texts, _ = sampled(prompts, 40, **settings)
    assert printed.getvalue() == "\n\n".join(texts) + "\n"


# (a value with which a setting does nothing, one that changes the text)
EFFECTIVE = {
    "temperature": (0, 3.0), "top_k": (0, 2), "top_p": (1.0, 0.2), "min_p": (0, 0.2), "eta": (0, 0.2),
    "repetition_penalty": (1.0, 5.0), "seed": (0, 3)
}  # fmt: skip


@pytest.mark.parametrize("is_turned_off", [False, True])
@pytest.mark.parametrize("name", SAMPLING)
def test_each_option_changes_the_text(run_folder, capsys, name, is_turned_off):
    values = EFFECTIVE[name][:: -1 if is_turned_off else 1]
    set_params(run_folder, {f"decode.{name}": values[0]})
    option = [f"--{name.replace('_', '-')}", str(values[1])]
    assert main(["generate", "the cat", "--max-tokens", "60", *option]) == 0
    before, after = (sampled(["the cat"], 60, **{name: value})[0][0] for value in values)
    assert capsys.readouterr().out == after + "\n" != before + "\n"


def log_probs(lines):
    """(token, log-probability) of each line, and the sum, which is last."""
    rows = [line.split(maxsplit=1) for line in lines]
    return [(word, float(number)) for number, word in rows[:-1]], float(rows[-1][0])


def test_log_probs_of_each_token(run_folder, capsys):
    assert main(["generate", "the cat", "--max-tokens", "9", "--log-probs"]) == 0
    _, (new,) = sampled(["the cat"], 9)
    rows, total = log_probs(capsys.readouterr().out.splitlines()[1:])
    _, tokenizer = parts()
    assert [word for word, _ in rows] == [tokenizer.tokens[token] for token in new.ids]
    assert [value for _, value in rows] == pytest.approx(new.log_probs, abs=6e-5)
    assert total == pytest.approx(sum(new.log_probs), abs=6e-5)


def test_beams_print_the_n_best_with_scores(run_folder, capsys):
    options = ["--max-tokens", "6", "--log-probs"]
    assert main(["generate", "the cat", "--beams", "4", "--n-best", "3", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    starts = [number for number, line in enumerate(lines) if ". score " in line]
    assert [lines[start].split(".")[0] for start in starts] == ["1", "2", "3"]
    penalty = load_params()["beam_bench"]["length_penalty"]
    scores = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        scores.append(float(lines[start].split("score ")[1].split(":")[0]))
        rows, total = log_probs(lines[start + 1 : end])
        assert scores[-1] == pytest.approx(total / len(rows) ** penalty, abs=1e-3)
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--beams", "0"], "--beams"),
        (["--beams", "999"], "width"),
        (["--beams", "2", "--n-best", "3"], "n_best"),
        (["--n-best", "2"], "--n-best"),
        (["--greedy", "--temperature-end", "3"], "--temperature-end"),
        (["--beams", "2", "--top-k", "3"], "--top-k"),
        (["--greedy", "--beams", "2"], "--beams"),
        (["--max-tokens", "-1"], "--max-tokens"),
        (["--temperature", "nan"], "decode.temperature"),
        (["--top-k", "1.5"], "--top-k"),
        (["--\x1b[2J"], "--⟨U+001B⟩[2J"),
        (["--models", "nowhere"], "nowhere/config.json"),
        (["--vocab", "nowhere/words.json"], "nowhere"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(run_folder, capsys, words, named):
    refused(["generate", "the", *words], named, capsys)


@pytest.mark.parametrize("command", [name for names in COMMANDS.values() for name in names])
def test_an_unknown_option_is_refused_with_the_help_that_lists_the_known_ones(capsys, command):
    word = "list" if command == "exercise" else "x"
    named = f"--no-such-option; see tinylm {command} --help"
    refused([command, word, "--no-such-option"], named, capsys)


def test_without_a_command_it_prints_help_and_an_unknown_one_is_refused(capsys):
    with pytest.raises(SystemExit, match="0"):
        main([])
    listed = capsys.readouterr().out.split()
    for commands in COMMANDS.values():
        assert commands.keys() <= set(listed)
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"tinylm {tinylm.__version__}\n"
    refused(["speak"], "generate", capsys)


def test_standard_input_is_a_prompt(run_folder, capsys, monkeypatch):
    for words in (["generate"], ["generate", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("the cat\nsat\n"))
        assert main([*words, "--max-tokens", "0"]) == 0
        assert capsys.readouterr().out == "the cat sat\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat"))
    assert main(["generate", "a dog", "-", "--max-tokens", "0"]) == 0
    assert capsys.readouterr().out == "a dog\n\nthe cat\n"


def test_no_prompt_at_a_terminal_is_bad_input(run_folder, capsys, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    refused(["generate"], "prompt", capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "the cat", "the dog", "--max-tokens", "20"],
        ["generate", "the cat", "--beams", "3"],
        ["lab", "-o", "written/page.html"],
        *(["export", "written", "--format", form] for form in ("transformers", "tinylm", "gguf")),
    ],
    ids=" ".join,
)
def test_the_run_in_the_current_folder_does_not_affect_another_model(
    words, finished_run, tmp_path, monkeypatch, capsys
):
    """Neither its tokenizer nor its results are used."""
    model = ["--models", str(tmp_path / "other/models")]
    make_run(tmp_path / "other", "keep")
    shutil.copytree(finished_run, tmp_path / "run", symlinks=True)
    (tmp_path / "empty").mkdir()
    shutil.copy(finished_run / "params.yaml", tmp_path / "empty")
    found = []
    for folder in (tmp_path / "run", tmp_path / "empty"):
        monkeypatch.chdir(folder)
        assert main([*words, *model]) == 0
        written = {
            path: path.read_bytes() for path in Path("written").glob("**/*") if path.is_file()
        }
        found.append((capsys.readouterr(), written))
    assert found[0] == found[1]
    assert found[0][0].err == ""


def test_truth_needs_a_model_of_the_storybook(run_folder, capsys):
    assert main(["truth", "once upon a time"]) == 2
    assert capsys.readouterr().err.startswith("error: truth: expected ")


def test_describe_counts_the_model_of_params(run_folder, capsys):
    _, tokenizer = parts()
    changed = load_params()
    changed["model"] |= {"layers": 2, "heads": 4, "feed_forward": 23, "context": CONTEXT}
    changed["embedding"]["width"] = 20
    Path("params.yaml").write_text(yaml.safe_dump(changed), "utf-8")
    assert main(["describe"]) == 0
    text = capsys.readouterr().out
    assert f"  {len(tokenizer)} x 20 " in text
    block = 4 * 20 * 21 + 2 * 20 * 23 + 20 + 23 + 4 * 20
    assert f"all {len(tokenizer) * 20 + 2 * block + 2 * 20:,} " in " ".join(text.split())
    assert f"MiB of KV cache per row of {CONTEXT} tokens" in text


def test_describe_refuses_a_vocabulary_of_other_settings(run_folder, capsys):
    times = Path("data/times/vocab.json")
    times.parent.mkdir(parents=True)
    times.write_text(json.dumps({"sections": {"vocab": {"max_size": 77}}}))
    assert main(["describe"]) == 2
    assert "vocab.max_size" in capsys.readouterr().err


def test_describe_counts_the_state_of_the_optimizer(run_folder, capsys):
    """Muon keeps one number per matrix weight, Adam two."""
    changed = load_params()
    changed["model"] |= {"layers": 1, "feed_forward": 100_000}
    printed = {}
    for optimizer in ("adamw", "muon"):
        changed["train"]["optimizer"] = optimizer
        Path("params.yaml").write_text(yaml.safe_dump(changed), "utf-8")
        assert main(["describe"]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "gradients" in line]
        printed[optimizer] = float(line.split()[0].replace(",", ""))
    assert printed["muon"] == pytest.approx(printed["adamw"] * 3 / 4, rel=0.01)

"""The commands on the pages exist, with the options and parameters that they are given."""

import importlib.util
import re
import shlex

import pytest
from dvc.cli import DvcParserError, parse_args

from tests.support import size
from tinylm.base.command import Parser
from tinylm.base.config import InputError, load_params, read_yaml
from tinylm.cli.command import add_commands
from tinylm.params.presets.write import names

ROOT = size.ROOT
PARAMS = load_params(ROOT / "tinylm/params/presets/storybook.yaml")
STAGES = read_yaml(ROOT / "dvc.yaml")["stages"]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in size.pages()}


def block_commands(page: str) -> list[str]:
    """The commands of the bash blocks, one a line, without comments and blank lines."""
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```$", page, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").replace(" && ", "\n").splitlines()
    commands = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    return [command for command in commands if command]


def prose_commands(page: str) -> list[str]:
    """Commands in single back-quotes, except those with a PLACEHOLDER."""
    text = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL)
    commands = re.findall(r"`((?:dvc|tinylm|make) [^`]+)`", text)
    return [command for command in commands if not re.search(r"\b[A-Z]{3,}\b", command)]


# CHANGELOG names commands that are gone.
PRESENT = [page for name, page in PAGES.items() if name != "CHANGELOG.md"]
COMMANDS = sorted(
    {command for page in PRESENT for command in block_commands(page) + prose_commands(page)}
)


def options_removed(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("-") and "=" not in word]


def dvc_problem(words: list[str]) -> str | None:
    try:
        parse_args(words)
    except DvcParserError as error:
        return None if len(words) == 1 else f"dvc refuses it: {error}"  # one word names a command
    keys = {f"{section}.{key}" for section, values in PARAMS.items() for key in values}
    changed = [word.partition("=")[0] for word in words if re.fullmatch(r"\w+\.\w+=.*", word)]
    named = options_removed(words[1:]) if words[0] == "repro" else []
    unknown = [key for key in changed if key not in keys]
    unknown += [name for name in named if name not in STAGES]
    return f"unknown: {', '.join(unknown)}" if unknown else None


def tinylm_problem(words: list[str]) -> str | None:
    if words[0].startswith("-"):
        return None
    parsers = add_commands(Parser("tinylm"))
    if words[0] not in parsers:
        return f"no command {words[0]}"
    try:
        arguments = parsers[words[0]].parse_args(words[1:])
    except SystemExit:  # it prints its help and ends
        return None
    except InputError as error:
        named_only = len(words) == 1 or "expected" in str(error)
        return None if named_only else f"tinylm refuses it: {error}"
    preset = getattr(arguments, "name", None) if words[0] == "preset" else None
    return f"no preset {preset}" if preset and preset not in names() else None


def problem(words: list[str]) -> str | None:
    """Why a command could not work, or None; settings of the environment before it are skipped."""
    while re.match(r"[A-Z_0-9]+=", words[0]):
        words = words[1:]
    tool = words[0]
    if tool == "dvc":
        return dvc_problem(words[1:])
    if tool == "tinylm":
        return tinylm_problem(words[1:])
    if tool == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE)
        missing = [word for word in options_removed(words[1:]) if word not in targets]
        return f"no target {', '.join(missing)}" if missing else None
    if tool == "python" and words[1:2] == ["-m"]:
        return None if importlib.util.find_spec(words[2]) else f"no module {words[2]}"
    return None


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_possible(command):
    assert problem(shlex.split(command)) is None

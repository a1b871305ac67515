"""Races: the loss that a recipe reaches within a time, beside the record's, and the time to a tuned nanoGPT's loss.

The recipe in params.yaml and that of the record are trained with the same seeds, in turn, each run anew and in one
piece (a timed sweep). The time is that of stages vocab and train, from the stories to the written model: tokens and
vectors count. The loss is bits per byte of the raw evaluation text, every byte counted.

A result is a record if it has three seeds or more, its median time is within the limit, and p < 0.01 that stories and
seeds alone make so much of a difference (`compare.statistics`). The first of its race needs none to be better than.
"""

import re
import statistics
import time
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params, parse_yaml
from tinylm.base.files import read_json, write_json
from tinylm.base.paths import DATA
from tinylm.benchmarks import record
from tinylm.benchmarks.lines import run_line
from tinylm.benchmarks.options import Options, add_options, options_of
from tinylm.host.command import CommandFailed, Parser
from tinylm.host.runtime import duration
from tinylm.presets.write import Values, flatten
from tinylm.sweep import plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import git

RACES = ("2min", "10min", "30min", "2h")
LOSSES = ("0.5M", "1M", "2M", "4M")
FILE, PAGE = Path("docs/records.json"), Options.page
MARKS = ("<!-- records: written by tinylm race -->", "<!-- end of records -->")
RECIPE = ("vocab", "embedding", "model", "train")  # sections; data are the race's
SEEDS, P = 3, 0.01
_SEED, _CODE = "train.seed", ("tinylm", "stages", "dvc.yaml")
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_HEAD = (
    "| race | bits per byte, raw text | the record before, again | p | time | recipe | commit, machine |",
    "|---|---|---|---|---|---|---|",
)


def limit_s(race: str) -> float:
    """Seconds of a race. Raises InputError."""
    found = re.fullmatch(r"([1-9]\d{0,5})(s|min|h)", race)
    if not found:
        allowed = f"{' | '.join(RACES)} or another time such as 90s; {' | '.join(LOSSES)}: to nanoGPT's loss"
        raise InputError(f"race {race}; allowed: {allowed}")
    return int(found[1]) * _UNITS[found[2]]


def named(race: str) -> str:
    """The name under which its records are kept: 2min for 120s. Raises InputError."""
    seconds = limit_s(race)
    unit = next(unit for unit in reversed(_UNITS) if seconds % _UNITS[unit] == 0)
    return f"{seconds / _UNITS[unit]:.0f}{unit}"


def to_loss(race: str, seeds: tuple[int, ...]) -> None:
    """Wall time to the loss that tuned nanoGPT has after so many tokens: line `loss` of make bench for one horizon."""
    from tinylm.benchmarks import loss

    if race not in LOSSES:
        raise InputError(f"race {race}; allowed: {' | '.join([*LOSSES, *RACES])}")
    parser = Parser()
    add_options(parser)
    chosen = loss.Plan(horizons=(round(float(race[:-1]) * 1e6),), seeds=seeds)
    run_line(
        "loss",
        options_of(parser.parse_args([])),
        lambda given: loss.measure(given, loss.default_corpus(), chosen),
    )


class Records:
    """docs/records.json, as to the stories of this folder; and its recipe, as it is when the race begins."""

    def __init__(self) -> None:
        self.stories, params = stories_id(), load_params()
        self.recipe = {
            key: value for key, value in flatten(params).items() if key.partition(".")[0] in RECIPE
        }
        self.tables = _tables()
        own = [table for table in self.tables if table["stories"] == self.stories]
        self.table = (
            own[0] if own else {"stories": self.stories, "data": params["data"], "records": {}}
        )

    def newest(self, race: str) -> dict[str, Any] | None:
        """The record to be beaten; None if there is none."""
        return (self.table["records"].get(race) or [None])[-1]

    def add(self, race: str, found: dict[str, Any]) -> None:
        """Keep a new record and write the page anew."""
        self.table["records"].setdefault(race, []).append(found)
        if self.table not in self.tables:
            self.tables.append(self.table)
        write_json(FILE, self.tables)
        if PAGE.exists():
            record.put(PAGE, MARKS, shown(self.tables))


def _tables() -> list[dict[str, Any]]:
    """What is in docs/records.json. Raises InputError if that is not what is written there."""
    try:
        tables = read_json(FILE) if FILE.exists() else []
        if not isinstance(tables, list):
            raise TypeError(type(tables).__name__)
        shown(tables)
        recipes = [
            found["recipe"]
            for table in tables
            for records in table["records"].values()
            for found in records
        ]
        if not all(isinstance(recipe, dict) for recipe in recipes) or not all(
            "stories" in table for table in tables
        ):
            raise TypeError("a recipe or the stories of a table are missing")
    except (
        InputError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        statistics.StatisticsError,
    ) as error:
        raise InputError(
            f"{FILE}: not the records of races ({error}); git checkout {FILE} brings them back"
        ) from None
    return tables


def stories_id() -> str:
    """The hash of this folder's stories. Raises InputError if stage download has not run with params.yaml's data."""
    try:
        made = parse_yaml(Path("dvc.lock").read_text(encoding="utf-8"), "dvc.lock")["stages"][
            "download"
        ]
        stories = [str(out["md5"]) for out in made["outs"] if out["path"] == f"{DATA}/stories"]
        if made["params"][PARAMS_FILE]["data"] == load_params()["data"]:
            return stories[0]
    except (OSError, KeyError, IndexError, TypeError):
        pass
    raise InputError(
        "dvc.lock: stage download has not run with these data; dvc repro download, then again"
    )


def shown(tables: list[dict[str, Any]]) -> str:
    """All records as Markdown, a table for each corpus."""
    parts = []
    for table in tables:
        rows = [
            _row(race, found) for race, records in table["records"].items() for found in records
        ]
        source = (
            table["data"]["path"] if table["data"]["source"] == "local" else table["data"]["source"]
        )
        parts.append(
            "\n".join(
                [
                    f"Stories: `{source}`, evaluation on all that its section `data` keeps.",
                    "",
                    *_HEAD,
                    *rows,
                ]
            )
        )
    return "\n\n".join(parts)


def _row(race: str, found: dict[str, Any]) -> str:
    before = "–" if found["before"] is None else _mean(found["before"]["bits"])
    p = "–" if found["p"] is None else f"{found['p']:.2g}"
    differs = ", ".join(f"`{key}`" for key in found["differs"]) or "the first of its race"
    recipe = f"{found['parameters']:,} parameters, {found['tokens']:,} tokens; {differs}"
    where = found["conditions"]
    machine = f"{found['commit'][:7]}, {where['threads']} of {where['cores']} cores, {where['cpu']}, {where['date']}"
    times = duration(statistics.median(found["seconds"].values()))
    return f"| {race} | {_mean(found['bits'])} | {before} | {p} | {times} | {recipe} | {machine} |"


def _mean(by_seed: dict[str, float]) -> str:
    values = list(by_seed.values())
    return f"{statistics.fmean(values):.4f} ({min(values):.4f} to {max(values):.4f}, {len(values)} seeds)"


def planned(race: str, seeds: tuple[int, ...], records: Records) -> list[tuple[Values, str]]:
    """(values, last stage) of all runs: for each seed first the record's recipe, if there is one, then ours.

    Raises InputError for what no record could be made of.
    """
    here = records.recipe
    if here["embedding.source"] == "file":
        raise InputError(
            "params.yaml: embedding.source = file; allowed in a race: random | counts | skipgram, made within its time"
        )
    kind, lower = here["vocab.tokenizer"], here["vocab.lower_case"]
    if kind == "longest_match" or (kind == "bpe" and lower):
        raise InputError(
            f"params.yaml: vocab.tokenizer = {kind}, lower_case = {str(lower).lower()}; allowed in a race: words, "
            "gpt2, or bpe with lower_case: false, since bits per byte of the raw text are known of these"
        )
    if changed := git("diff", "--name-only", "HEAD", "--", *_CODE).split():
        raise InputError(
            f"{changed[0]} is changed; allowed in a race: committed code, as a record names its commit"
        )
    if len(seeds) < SEEDS:
        raise InputError(f"--seeds: {len(seeds)} of them; allowed in a race: {SEEDS} or more")
    sides: list[Values] = [{}]
    if newest := records.newest(race):
        theirs = {
            key: value for key, value in newest["recipe"].items() if value != here.get(key, ...)
        }
        theirs.pop(_SEED, None)
        if not theirs:
            raise InputError(f"params.yaml: its recipe is the record's of {race}; allowed: another")
        sides.insert(0, theirs)
    return [(side | {_SEED: seed}, "evaluate") for seed in seeds for side in sides]


def _side(sweep: Sweep, numbers: list[int]) -> dict[str, Any]:
    """Bits, seconds and held-out loss by seed of one side's runs. Raises CommandFailed if one failed."""
    found: dict[str, Any] = {"bits": {}, "seconds": {}, "held_out_loss": {}}
    for number in numbers:
        state, figures = sweep.state(number), sweep.figures(number)
        if state["state"] != plan.DONE:
            raise CommandFailed(
                f"run {number} ({sweep.label(number)}): {state['why']}; the same command tries it again"
            )
        bits = figures["evaluate"]["raw_bits_per_byte"]
        if bits is None:
            raise CommandFailed(
                "evaluate: bits per byte of the raw text are not known here; a race is decided by them"
            )
        seed = str(sweep.runs[number - 1][_SEED])
        found["bits"][seed], found["seconds"][seed] = bits, figures["seconds"]
        found["held_out_loss"][seed] = state["held_out"]
    return found


def _p(sweep: Sweep) -> float:
    """Probability that stories and seeds alone make the two sides differ as they do; 1 if that is not known."""
    from tinylm.compare.comparison import RAW_BITS, compare
    from tinylm.compare.revisions import opened
    from tinylm.compare.runs import read_run

    with opened([sweep.experiment(number) for number in sweep.numbers]) as revisions:
        sides = compare([read_run(revision) for revision in revisions]).against
    found = [
        one.difference.p
        for side in sides
        if side.differs == "settings"
        for one in side.findings
        if one.metric == RAW_BITS
    ]
    return found[0] if found and found[0] is not None else 1.0


def judge(race: str, sweep: Sweep, records: Records) -> list[str]:
    """What is to be said of a race that has ended, line by line; a record is kept."""
    limit, newest = limit_s(race), records.newest(race)
    both = newest is not None
    ours = [number for number in sweep.numbers if not both or number % 2 == 0]
    mine = _side(sweep, ours)
    theirs = (
        _side(sweep, [number for number in sweep.numbers if number not in ours]) if both else None
    )
    p = _p(sweep) if both else None
    took = statistics.median(mine["seconds"].values())
    said = [
        f"{race}: {_mean(mine['bits'])} bits per byte of the raw text, {took:.1f} s of vocab and train (median)"
    ]
    problems = []
    trained = sweep.figures(ours[0])["train"]
    if took > limit:
        fits = int(trained["tokens"] * limit / took)
        problems.append(f"longer than {limit:.0f} s; at this rate {fits:,} tokens fit")
    if theirs is not None:
        said.append(
            f"the record, again: {_mean(theirs['bits'])}, {statistics.median(theirs['seconds'].values()):.1f} s"
        )
        worse = statistics.fmean(mine["bits"].values()) >= statistics.fmean(theirs["bits"].values())
        if worse or p is None or p >= P:
            problems.append(
                "not better than the record" if worse else f"p = {p:.2g}; less than {P} counts"
            )
    if problems:
        return [*said, f"no record: {'; '.join(problems)}"]
    differs = [
        key
        for key, value in records.recipe.items()
        if newest and value != newest["recipe"].get(key, ...)
    ]
    found = {
        "date": time.strftime("%Y-%m-%d"), "commit": sweep.baseline, **mine, "before": theirs, "p": p,
        "parameters": trained["parameters"], "tokens": trained["tokens"], "differs": differs,
        "recipe": records.recipe,
        "conditions": sweep.figures(ours[0])["conditions"],
    }  # fmt: skip
    records.add(race, found)
    return [
        *said,
        f"a record: {FILE} has it"
        + (f", p = {p:.2g}" if p is not None else ", the first of its race"),
    ]

"""tinylm race: the loss after a time, beside the record's; or the time to a tuned nanoGPT's loss."""

import argparse

from tinylm.cli.sweep import Places, add_places

NOTES = """\
After a time (2min, 10min, 30min, 2h): the recipe in params.yaml (sections vocab, embedding, model, train) and that of
the record in docs/records.json are trained in turn, with the same seeds, as runs of a sweep, one at a time. It counts
with three seeds or more, a median time of stages vocab and train within the limit, and p < 0.01. The loss is bits per
byte of the raw evaluation text; choose on held-out. To a loss (0.5M, 1M, 2M, 4M): the wall time to that of a tuned
nanoGPT after so many tokens (NANOGPT names a clone); line `loss` of make bench. A race that was cut off goes on when
the same command is given again."""
EXAMPLES = """\
  tinylm race 10min
  tinylm race 10min --seeds 1,2,3,4,5
  NANOGPT=../nanoGPT tinylm race 2M
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """RACE and the options."""
    parser.add_argument(
        "race",
        metavar="RACE",
        help="2min | 10min | 30min | 2h | 0.5M | 1M | 2M | 4M, or another time",
    )
    parser.add_argument(
        "--seeds", default="1,2,3", metavar="N,N", help="of section train (default %(default)s)"
    )
    add_places(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run a race, say what came of it, and keep a record."""
    from tinylm.benchmarks import race
    from tinylm.sweep.begin import go_on_or_begin, seeds_of

    name, seeds = arguments.race, tuple(seeds_of(arguments.seeds))
    if name.endswith("M"):
        race.to_loss(name, seeds)
        return
    name = race.named(name)
    if arguments.workers is None:
        arguments.workers = 1  # times are wanted: one run at a time, unless it is asked for
    places, records = Places(arguments), race.Records()
    runs = race.planned(name, seeds, records)
    sweep = go_on_or_begin(
        f"race-{name}", runs, places.workers, places.on, places.memory, timed=True
    )
    places.carry_out(sweep)
    print("\n".join(race.judge(name, sweep, records)))

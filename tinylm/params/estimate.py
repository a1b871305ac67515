"""How long a run takes, estimated from a second of work on this machine.

`tinylm check` writes the estimate, and each stage of the run that follows prints what is left of it.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.files import read_json, write_json
from tinylm.bench.trials import TRIALS
from tinylm.download.settings import GENERATED, DataSettings
from tinylm.download.source import open_source
from tinylm.params.params import Params
from tinylm.params.speed import STORY, Speed, row_tokens
from tinylm.vocab.embedding.matrix import MAX_TOKENS

FILE = Path(".dvc/tmp/estimate.json")
STORY_BYTES = 700
TINYSTORIES = 2_000_000  # stories of TinyStories' train split, and of its evaluation split
TINYSTORIES_EVALUATION = 20_000
FORWARD = 1 / 3  # of an update's time
SAMPLED_TEXTS = 50  # that beam_bench compares with the beams


@dataclass(frozen=True)
class Measured:
    """A stage of the default run: start-up seconds, working seconds, amount of work."""

    start_s: float
    work_s: float
    work: float

    def seconds(self, work: float) -> float:
        """Seconds with another amount of work."""
        return self.start_s + self.work_s * work / self.work


# Measured with the preset storybook, on a machine where `speed.measure` returned forward_s = REFERENCE_S.
REFERENCE_S = 0.046
DOWNLOAD = Measured(3, 8, work=20_000)  # stories that are written
READ = Measured(3, 1, work=20_000)  # stories of your own files
VOCAB = Measured(3, 3, work=20_000)
SKIPGRAM = Measured(0, 18, work=20_000)
EVALUATE = Measured(36, 5, work=500)  # evaluation stories
MEMORISED = Measured(0, 1.2, work=20_000)  # train stories that are compared with continuations
BEAM_BENCH = Measured(15, 10.6, work=16 * 60 * 55)  # beams x tokens x prompts
KV_BENCH = Measured(9, 18, work=20 * 160**2)  # tokens computed without a cache


@dataclass(frozen=True)
class Corpus:
    """About how many average stories two of the splits have."""

    train: float
    evaluation: float


def corpus_of(data: DataSettings) -> Corpus:
    """The corpus that the settings name, by the sizes of its files; of a hub's, TinyStories."""
    train, evaluation = float(TINYSTORIES), float(TINYSTORIES_EVALUATION)
    if data.source in GENERATED:
        train = evaluation = math.inf
    if data.source == "local":
        sizes = open_source(data).sizes
        train = sizes["train"] / STORY_BYTES
        read = train
        if data.train_stories is not None:
            read = min(read, data.train_stories / (1 - data.held_out_share))
        evaluation = data.held_out_share * read
        if "evaluation" in sizes:
            evaluation = sizes["evaluation"] / STORY_BYTES
    train_limit, evaluation_limit = data.limits()
    if train_limit is not None:
        train = min(train, train_limit)
    if evaluation_limit is not None:
        evaluation = min(evaluation, evaluation_limit)
    return Corpus(train, evaluation)


def _tokens_per_pass(params: Params, stories: float) -> float:
    """The tokens read in one pass over these stories; layout windows reads each one model.context times."""
    times = params.model.context if params.train.layout == "windows" else 1
    return stories * STORY * times


def _training_tokens(params: Params, corpus: Corpus) -> float:
    """The budget of stage train."""
    epochs = params.train.epochs or 0
    return params.train.tokens or epochs * _tokens_per_pass(params, corpus.train)


def validation_seconds(params: Params, corpus: Corpus, token_s: float) -> float:
    """Seconds of stage train in which it scores the held-out split."""
    train = params.train
    update = train.batch_size * train.accumulation * row_tokens(params)  # tokens
    updates = _training_tokens(params, corpus) / update
    validations = 2 + updates / train.validate_every
    held_out = _tokens_per_pass(params, params.data.held_out_share * corpus.train)
    return validations * held_out * FORWARD * token_s


def stage_seconds(params: Params, corpus: Corpus, speed: Speed) -> dict[str, float]:
    """Seconds of each stage, in the order in which they run.

    Stages that train take as long as their tokens. The others take as long as in the default run,
    for as much more work as they have here, on a machine that is as much slower.
    """
    token_s = speed.token_s
    sweep, ckpt = params.accum_sweep, params.ckpt_bench
    beams, cache = params.beam_bench, params.kv_bench
    training_s = 1.03 * _training_tokens(params, corpus) * token_s  # some of it for snapshots
    training_s += validation_seconds(params, corpus, token_s)
    ckpt_tokens = 2 * TRIALS * ckpt.updates * ckpt.batch_size * row_tokens(params)
    searched = sum(beams.widths) * beams.new_tokens * (beams.prompts + SAMPLED_TEXTS)
    recomputed = cache.batch * max(cache.lengths) ** 2
    read = min(corpus.train, MAX_TOKENS / STORY)
    vectors_s = SKIPGRAM.seconds(read) if params.embedding.source == "skipgram" else 3
    download = DOWNLOAD if params.data.source in GENERATED else READ
    pace = speed.forward_s / REFERENCE_S
    return {
        "download": pace * download.seconds(corpus.train),
        "vocab": pace * (VOCAB.seconds(corpus.train) + vectors_s),
        "train": pace * 5 + training_s,
        "evaluate": pace * (EVALUATE.seconds(corpus.evaluation) + MEMORISED.seconds(corpus.train)),
        "beam_bench": pace * BEAM_BENCH.seconds(searched),
        "kv_bench": pace * KV_BENCH.seconds(recomputed),
        "accum_sweep": pace * 10 + len(sweep.settings) * sweep.tokens * token_s,
        "ckpt_bench": pace * 10 + 1.2 * ckpt_tokens * token_s,
        "seeds": pace * 2 + len(params.seeds.more) * training_s,
        "report": pace * 12,
    }


def rough_duration(seconds: float) -> str:
    """A duration in words, such as “about 4 min”."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def keep(seconds: dict[str, float], values: Mapping[str, Any]) -> None:
    """Keep the estimate for the stages to show; values: of params.yaml, which it is for."""
    write_json(FILE, {"params": _digest(values), "seconds": seconds})


def announce(stage: str, values: Mapping[str, Any]) -> None:
    """Print the stage's number, and the time left if `tinylm check` has estimated these values."""
    content = read_json(FILE) if FILE.exists() else {}
    seconds = content.get("seconds", {})
    if stage not in seconds:
        return
    before = list(seconds).index(stage)
    line = f"stage {before + 1} of {len(seconds)}, {stage}"
    if content["params"] == _digest(values):
        line += f"; {rough_duration(sum(list(seconds.values())[before:]))} left in all"
    print(line, flush=True)


def _digest(values: Mapping[str, Any]) -> str:
    """Of the values of params.yaml, equal if they are."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

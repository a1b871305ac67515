"""What stages download and vocab would make of the data, made in a temporary folder; whether later stages can use it.

The stages' own functions are called. Of a large corpus only the beginning is read: what more data might cure is then no
problem, and what was read is said.
"""

import contextlib
import dataclasses
import functools
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.seeding import derive_seed
from tinylm.cli.finding import Finding
from tinylm.decoding.texts import encode_prompt
from tinylm.download.marked_text import TextPart
from tinylm.download.readers import stories_of
from tinylm.download.sources import Rows, Source, open_source
from tinylm.download.splits import write_stories
from tinylm.embedding.matrix import embedding_matrix
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.host.params import Sections, rule_errors
from tinylm.vocab.encoding import cut_stream, write_stores
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

if TYPE_CHECKING:  # imports torch
    from tinylm.vocab.batches import TrainBatches

WORDS_BYTES, OTHERS_BYTES = (
    8 << 20,
    5 << 18,
)  # of text that is read: other tokenizers take longer to make
EVALUATION_STORIES, STORYBOOK_STORIES = (
    1000,
    300,
)  # the storybook cannot be damaged, and writing it takes time
VECTOR_BYTES = 64 << 20  # of a file of vectors that is read as a whole
LATITUDE = 2  # an update of the beginning may be that much larger than one of the whole
SAMPLE = "train.sample_prompt"
NEEDED = (
    "data",
    "vocab",
    "embedding",
    "model",
    "train",
    "evaluate",
    "beam_bench",
    "kv_bench",
    "accum_sweep",
)


@dataclasses.dataclass(frozen=True)
class Made:
    """What was made: findings, and the tokenizer and stores unless something is wrong or on the hub.

    whole, whole_evaluation: whether train and evaluation are as the stages will make them, not a beginning.
    """

    findings: list[Finding]
    tokenizer: Tokenizer | None = None
    stores: dict[str, TokenStore] = dataclasses.field(default_factory=dict)
    whole: bool = False
    whole_evaluation: bool = False

    @property
    def vocab_size(self) -> int | None:
        """The number of ids, if the whole vocabulary was made."""
        return len(self.tokenizer) if self.tokenizer is not None and self.whole else None


def _beginning(rows: Rows, most: int) -> tuple[int, bool]:
    """How many stories make up `most` characters, and whether there are no others."""
    stories = size = 0
    for row in rows:
        texts = stories_of(row) if isinstance(row, TextPart) else [row[0]]
        for text in texts:
            stories, size = stories + 1, size + len(text)
        if size >= most:
            return stories, next(rows, None) is None
    return stories, True


def _limits(read: Sections, source: Source) -> tuple[int, int, bool]:
    """(train stories to take, evaluation stories to take, whether the first are all that there is)."""
    data, vocab = read["data"], read.get("vocab")
    wanted = [
        getattr(read.get(section), key, 0)
        for section, key in (("evaluate", "stories"), ("kv_bench", "batch"))
    ]
    if data.source == "storybook":
        most = max(STORYBOOK_STORIES, *wanted)
        return min(data.train_stories, STORYBOOK_STORIES), min(data.evaluation_stories, most), False
    size = WORDS_BYTES if vocab is None or vocab.tokenizer == "words" else OTHERS_BYTES
    stories, is_all = _beginning(source.train(), size)
    evaluated = min(data.evaluation_stories or EVALUATION_STORIES, max(EVALUATION_STORIES, *wanted))
    return max(min(data.train_stories or stories, stories), 1), evaluated, is_all


def make(read: Sections, folder: Path) -> Made:
    """The stories, and the vocabulary if its section can be read; hub data is not asked for."""
    data, vocab = read.get("data"), read.get("vocab")
    if data is None or data.source == "hub":
        return Made([])
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            source = open_source(data)
            train, evaluation, is_all = _limits(read, source)
            own = (
                source.evaluation is not None
            )  # else a share of the stories, to which no limit of ours applies
            limits = {
                "train_stories": train,
                "evaluation_stories": evaluation if own else data.evaluation_stories,
            }
            splits = write_stories(dataclasses.replace(data, **limits), folder / "stories")[
                "splits"
            ]
            counts = {split: figures["stories"] for split, figures in splits.items()}
            whole = is_all or counts["train"] + counts["held_out"] == data.train_stories
            at_limit = own and counts["evaluation"] == evaluation != data.evaluation_stories
            whole_evaluation = not at_limit if own else whole
            found = ", ".join(f"{split} {count:,}" for split, count in counts.items())
            said = Finding("stories", found if whole else f"{found}; only the beginning was read")
            if vocab is None or vocab.hub_id is not None:
                return Made([said], whole=whole, whole_evaluation=whole_evaluation)
            if not whole:
                vocab = dataclasses.replace(vocab, min_count=1)  # words are rarer in a beginning
            tokenizer, _ = write_stores(vocab, folder / "stories", folder / "tokens", 1)
            if data.held_out == "tokens" and whole:
                cut_stream(folder / "tokens", data.held_out_share, data.overlap)
    except InputError as error:
        return Made([Finding("stories", "", str(error))])
    except OSError as error:
        return Made([Finding("stories", "", note=f"not tried: {error.strerror or error}")])
    stores = {split: TokenStore(folder / "tokens", split) for split in counts}
    size = Finding("vocabulary" if whole else "vocabulary so far", f"{len(tokenizer):,} ids")
    return Made([said, size], tokenizer, stores, whole, whole_evaluation)


Use = Callable[[], str]  # what was found; InputError if the stage would refuse


def _chosen(choose: Callable[[], list], wanted: int) -> str:
    return f"{len(choose()):,} of {wanted:,}"


def _scored(store: TokenStore, read: Sections, tokenizer: Tokenizer) -> str:
    """Whether a split has a token to score."""
    from tinylm.vocab.batches import scoring_batches

    layout, context = read["train"].layout, read["model"].context
    batches = scoring_batches(store, layout, 1, context, tokenizer.pad_id)
    if not any(batch.tokens for batch in batches):
        raise InputError(
            "the split holds no token to score; give it at least one story of two words"
        )
    return f"{len(store.ids):,} tokens"


def _batches(made: Made, read: Sections, batch_size: int) -> "TrainBatches":
    """The train split in batches, in the order of stage train."""
    from tinylm.vocab.batches import TrainBatches

    assert made.tokenizer is not None
    train, context = read["train"], read["model"].context
    order = derive_seed(train.seed, "order")
    return TrainBatches(
        made.stores["train"], train.layout, batch_size, context, made.tokenizer.pad_id, order
    )


def _first_update(made: Made, read: Sections) -> str:
    """Whether the budget allows an update, and the run reaches the epochs that are to be kept."""
    from tinylm.train.loop import budget_too_small
    from tinylm.train.schedules import EpochCheckpoints

    train = read["train"]
    batches = _batches(made, read, train.batch_size)
    if train.tokens is None and not made.whole:
        return "not known before all stories are read"
    end = train.budget(batches.tokens_per_epoch)[1]
    first = sum(batches.batch(number).tokens for number in range(train.accumulation))
    if first > end * (1 if made.whole else LATITUDE):
        raise InputError(budget_too_small(train, end, first))
    if made.whole:
        EpochCheckpoints(train.keep_epochs, batches.tokens_per_epoch, end)
    return f"{first:,} tokens; the budget is {end:,}"


def _sweep(made: Made, read: Sections) -> str:
    """Whether the sweep's budget allows an update of its largest setting."""
    from tinylm.bench.accum import plan

    sweep = read["accum_sweep"]
    tokens = sweep.tokens * (1 if made.whole else LATITUDE)
    updates, used = plan(
        _batches(made, read, sweep.batch_size), dataclasses.replace(sweep, tokens=tokens)
    )
    return f"{updates:,} updates, {used:,} tokens" if made.whole else "enough for an update"


def _uses(read: Sections, made: Made) -> Iterator[tuple[str, bool, Use]]:
    """(what, whether all that it depends on was made, the stage's own function)."""
    from tinylm.bench import beam, kv
    from tinylm.evaluate.continuations import evaluation_prompts

    assert made.tokenizer is not None
    s, tokenizer, evaluation = SimpleNamespace(**read), made.tokenizer, made.stores["evaluation"]
    sos_id = tokenizer.sos_id
    yield (
        SAMPLE,
        True,
        lambda: (
            f"{len(encode_prompt(tokenizer, s.train.sample_prompt, f'{PARAMS_FILE}: {SAMPLE}'))} tokens"
        ),
    )
    yield "first update", True, lambda: _first_update(made, read)
    yield "sweep's updates", True, lambda: _sweep(made, read)
    yield "held-out split", made.whole, lambda: _scored(made.stores["held_out"], read, tokenizer)
    if s.data.held_out == "tokens" and not len(evaluation) and not made.whole:
        return  # the end of a stream that was not read
    known = made.whole_evaluation
    yield "evaluation split", known, lambda: _scored(evaluation, read, tokenizer)
    found: dict[str, tuple[Callable[[], list], int]] = {
        "evaluate.stories": (
            lambda: evaluation_prompts(evaluation, tokenizer, s.evaluate),
            s.evaluate.stories,
        ),
        "beam_bench.prompts": (
            lambda: beam.story_prompts(evaluation, s.beam_bench, sos_id),
            s.beam_bench.prompts,
        ),
        "kv_bench.batch": (
            lambda: kv.choose_batch(evaluation, s.kv_bench, s.model.context, sos_id),
            s.kv_bench.batch,
        ),
    }
    for what, (choose, wanted) in found.items():
        yield what, known, functools.partial(_chosen, choose, wanted)
    if s.embedding.source == "file" and s.embedding.hub_id is None and made.whole:
        yield (
            "vectors",
            os.path.getsize(s.embedding.path) <= VECTOR_BYTES,
            lambda: _vectors(s.embedding, tokenizer),
        )


def _vectors(settings: EmbeddingSettings, tokenizer: Tokenizer) -> str:
    """How many of the vocabulary's words a file of vectors has."""
    _, info = embedding_matrix(settings, tokenizer, lambda: (), lambda: ())
    return f"{info['covered']:,} of {info['words']:,} words"


def _unknown(read: Sections, made: Made) -> str:
    """A note on the sample prompt's words that the vocabulary lacks; none if only a beginning of it was made."""
    from tinylm.api.language_model import unknown_words

    assert made.tokenizer is not None
    return unknown_words(made.tokenizer, read["train"].sample_prompt) if made.whole else ""


def use(read: Sections, made: Made) -> Iterator[Finding]:
    """One finding for each later stage's demand on what was made; sections without an error only."""
    if made.tokenizer is None or not all(name in read for name in NEEDED):
        return
    for what, known, function in _uses(read, made):
        if not known:
            continue
        try:
            yield Finding(what, function(), note=_unknown(read, made) if what == SAMPLE else "")
        except InputError as error:
            yield Finding(
                what, "", f"{error}{'' if made.whole else ', as the beginning of the data has it'}"
            )


@dataclasses.dataclass(frozen=True)
class Tried:
    """All findings, and sizes for estimates: of the vocabulary, at least, and of an epoch, if the whole was read."""

    findings: list[Finding]
    vocab_size: int | None
    tokens_per_epoch: int | None


def vocab_limit(read: Sections) -> int | None:
    """The most ids that section `vocab` allows; None if it sets no limit or has an error."""
    return read["vocab"].size_limit() if "vocab" in read else None


def rules_only(read: Sections) -> Tried:
    """What the rules between sections find, without the data."""
    rules = [Finding("rules between sections", "", error) for error in rule_errors(read)]
    return Tried(rules or [Finding("rules between sections", "kept")], vocab_limit(read), None)


def rehearse(read: Sections) -> Tried:
    """Try the data, and check the rules between sections with the vocabulary that it gives."""
    with tempfile.TemporaryDirectory(prefix="tinylm-") as folder:
        made = make(read, Path(folder))
        rules = rules_only(read).findings
        sound = not any(
            finding.problem for finding in rules
        )  # else the same cause would be named twice
        later = list(use(read, made)) if sound else []
        epoch = None
        readable = all(name in read for name in NEEDED)
        if (
            made.whole
            and made.stores
            and readable
            and sound
            and not any(finding.problem for finding in later)
        ):
            epoch = _batches(made, read, read["train"].batch_size).tokens_per_epoch
    size = vocab_limit(read) if made.tokenizer is None else len(made.tokenizer)
    return Tried([*rules, *made.findings, *later], size, epoch)

"""Do the settings fit the tokens? The rules of all stages that need the vocabulary or the splits.

Stage vocab checks them as soon as the tokens are written, and each later stage before it starts, so
a bench's setting that does not fit is refused before training, not after it.
"""

import dataclasses
import os
import warnings
from collections.abc import Callable

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, Problems
from tinylm.params.params import Params
from tinylm.text.cleaning import clean_text
from tinylm.text.stories import SPLITS
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore


class Tokens:
    """What stage vocab wrote: the tokenizer and the token store of each split."""

    def __init__(self) -> None:
        self.tokenizer = open_tokenizer(paths.TOKENIZER)
        self.train, self.held_out, self.evaluation = (
            TokenStore(paths.TOKENS, split) for split in SPLITS
        )


# Each rule raises InputError. It calls what its stage calls; torch is imported only here, so that
# params.yaml alone is checked without it.


def _every_split_has_rows(params: Params, tokens: Tokens) -> None:
    from tinylm.vocab.rows import check_rows

    for store in (tokens.train, tokens.held_out, tokens.evaluation):
        check_rows(store, params.train.layout, params.model.context)


def _budget_allows_an_update(params: Params, tokens: Tokens) -> None:
    from tinylm.train.loop import check_budget
    from tinylm.train.preparation import training_batches

    settings = params.train
    most = settings.update_tokens(params.model.context)
    if settings.tokens is not None and settings.tokens >= most:
        return  # also enough for full rows, so the batches need not be made
    for seed in (settings.seed, *params.seeds.more):
        of_seed = dataclasses.replace(settings, seed=seed)
        batches = training_batches(params.model, of_seed, tokens.train, tokens.tokenizer.pad_id)
        check_budget(of_seed, batches)


def _kept_epochs_are_in_the_run(params: Params, tokens: Tokens) -> None:
    from tinylm.train.preparation import training_batches
    from tinylm.train.snapshot import checkpoint_tokens

    settings = params.train
    if settings.keep_epochs:
        batches = training_batches(params.model, settings, tokens.train, tokens.tokenizer.pad_id)
        per_epoch = batches.tokens_per_epoch
        checkpoint_tokens(settings.keep_epochs, per_epoch, settings.budget(per_epoch))


def _sample_prompt_has_tokens(params: Params, tokens: Tokens) -> None:
    name = f"{PARAMS_FILE}: runtime.sample_prompt"
    tokens.tokenizer.encode_prompt(params.runtime.sample_prompt, name)


def _evaluation_has_prompts(params: Params, tokens: Tokens) -> None:
    from tinylm.evaluate.continuations import evaluation_prompts

    evaluation_prompts(tokens.evaluation, tokens.tokenizer, params.evaluate)


def _beams_have_prompts(params: Params, tokens: Tokens) -> None:
    from tinylm.bench.beam import story_prompts

    story_prompts(tokens.evaluation, params.beam_bench, tokens.tokenizer.sos_id)


def _beams_fit_the_vocabulary(params: Params, tokens: Tokens) -> None:
    from tinylm.decoding.beam_search import check_width

    widest = max(params.beam_bench.widths)
    check_width(widest, len(tokens.tokenizer), f"{PARAMS_FILE}: beam_bench.widths")


def _batch_has_prompts(params: Params, tokens: Tokens) -> None:
    from tinylm.bench.kv import choose_batch

    choose_batch(tokens.evaluation, params.kv_bench, tokens.tokenizer.sos_id)


def _sweep_allows_an_update(params: Params, tokens: Tokens) -> None:
    from tinylm.bench.accum import check_sweep

    check_sweep(params.accum_sweep, params.model, params.train, tokens.tokenizer.pad_id)


def _own_texts_have_tokens(params: Params, tokens: Tokens) -> None:
    problems = Problems()
    for key in ("prompts", "sentences"):
        for number, text in enumerate(getattr(params.report, key), start=1):
            name = f"{PARAMS_FILE}: report.{key}, text {number}"
            with problems.collected():
                tokens.tokenizer.encode_prompt(clean_text(text), name)
    problems.refuse()


RULES: tuple[Callable[[Params, Tokens], None], ...] = (
    _every_split_has_rows,
    _budget_allows_an_update,
    _kept_epochs_are_in_the_run,
    _evaluation_has_prompts,
    _beams_have_prompts,
    _beams_fit_the_vocabulary,
    _batch_has_prompts,
    _sweep_allows_an_update,
    _own_texts_have_tokens,
    _sample_prompt_has_tokens,
)


def check_tokens(params: Params) -> None:
    """Raise InputError with a line for each setting that does not fit the vocabulary or the splits.

    Without the output of stage vocab nothing is checked: the stage that needs it says so.
    """
    stores = (f"{paths.TOKENS}/{split}.json" for split in SPLITS)
    if not all(map(os.path.exists, (paths.TOKENIZER, *stores))):
        return
    tokens = Tokens()
    problems = Problems()
    with warnings.catch_warnings(action="ignore"):  # the stage warns of characters it leaves out
        for rule in RULES:
            with problems.collected():
                rule(params, tokens)
    problems.refuse()

"""The inputs of stage evaluate: the trained model, its data, and what it is compared with."""

import dataclasses

import torch

from tinylm.base import paths
from tinylm.evaluate.baselines import count_ngrams
from tinylm.evaluate.continuations import evaluation_prompts
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.model.transformer import TinyLM
from tinylm.run.downloaded import Downloaded
from tinylm.run.result_files import read_stage
from tinylm.run.trained import Trained
from tinylm.storybook.check import world_of
from tinylm.storybook.world import World
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.prompts import Prompt
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

NGRAM_ORDER = 5  # of the interpolated modified Kneser-Ney baseline


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A trained model with its data, and the n-gram models that it is compared with.

    checkpoints: (epochs, model) of each of `train.keep_epochs`.
    corpus: the results of stage download. world: what wrote the stories; None for other text.
    tokens, epochs: how many the run was trained for. saved_tokens: after how many it had the model's
    weights; fewer than `tokens` if early stopping kept better ones than the last.
    """

    model: TinyLM
    layout: str
    checkpoints: list[tuple[float, TinyLM]]
    tokenizer: Tokenizer
    train: TokenStore
    evaluation: TokenStore
    prompts: list[Prompt]
    corpus: Downloaded
    world: World | None
    tokens: int
    epochs: float
    saved_tokens: int
    ngrams: KneserNey
    unigrams: KneserNey


def load_trained_run(settings: EvaluateSettings, device: torch.device) -> TrainedRun:
    """Raises InputError if a file is missing or does not fit the model."""
    model, config = load_model(paths.MODELS, device)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    layout = config["layout"]
    tokenizer = open_tokenizer(paths.TOKENIZER)
    train = TokenStore(paths.TOKENS, "train")
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    trained = read_stage(Trained, "train")
    corpus = read_stage(Downloaded, "download")
    saved = trained.saved_tokens
    return TrainedRun(
        model=model,
        layout=layout,
        checkpoints=list(load_checkpoints(paths.MODELS, device)),
        tokenizer=tokenizer,
        train=train,
        evaluation=evaluation,
        prompts=evaluation_prompts(evaluation, tokenizer, settings),
        corpus=corpus,
        world=world_of(corpus.source, corpus.path, digest=corpus.world),
        tokens=trained.tokens,
        epochs=trained.epochs,
        saved_tokens=trained.tokens if saved is None else saved,
        ngrams=count_ngrams(train, layout, NGRAM_ORDER),
        unigrams=count_ngrams(train, layout, 1),
    )

"""The line `lab`: whether the page of this folder's run says what tinylm says, and how fast."""

import importlib.util
import shutil
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.interleaved import spread
from benchmarks.options import Options
from benchmarks.record import Row
from benchmarks.shape import AS_PRESET, WORD_50K
from tests.lab.page_engine import Engine
from tinylm.base import paths
from tinylm.base.config import load_params
from tinylm.base.files import write_bytes
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Session, decoding_mode
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.continuations import token_log_probs
from tinylm.lab.build import build_page, rule_of
from tinylm.lab.facts import facts
from tinylm.lab.making import make_page
from tinylm.model.checkpoint import load_model, new_model
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.report.sources import read_run
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer
from tinylm.vocab.words import Splitter, WordTokenizer

PROMPT, NEW, TEXTS = 5, 40, 50  # tokens of a prompt, greedy tokens after it, how many texts
SPEED = 180  # tokens of a timed text, compilation by the browser included


def lab(options: Options) -> list[Row]:
    """Needs a finished run in this folder: its model, vocabulary and evaluation stories."""
    params = load_params()
    model, tokenizer = load_model(paths.MODELS)[0], open_tokenizer(paths.TOKENIZER)
    stories = [row.tolist() for row in _stories(2 if options.tiny else TEXTS)]
    whole = make_page(paths.MODELS, paths.TOKENIZER, params, read_run(".", params))
    exact = Engine(make_page(paths.MODELS, paths.TOKENIZER, params, None, "float32"))
    page = Engine(whole)
    apart = abs(np.expm1(_nats(page, stories) - _nats(model, stories)))
    same, texts = _agreement(model, page, stories, banned_ids(tokenizer), tokenizer.eos_id)
    rows = [
        _row("size of the page", "MiB", [len(whole) / 2**20], must=3.0),
        _row("logits of 20 prompts, float32 weights", "apart", [_apart(model, exact, stories[:20])], must=1e-4),
        _row(f"perplexity of {len(stories)} evaluation stories, int8", "% apart", [100 * apart], must=0.5),
        _row(
            f"greedy tokens up to each text's first difference, {len(stories)} prompts, {NEW} tokens, int8",
            "% equal", [100 * same], must=98.0, higher=True, note=f"{texts} of {len(stories)} texts equal to the end",
        ),
    ]  # fmt: skip
    return [*rows, *_in_chromium(whole, options)]


def _row(
    what: str, unit: str, figures: list[float], must: float, higher: bool = False, note: str = ""
) -> Row:
    found = spread(figures)
    return Row(
        what,
        unit,
        found,
        figure=found["median"],
        figure_unit=unit,
        must=must,
        higher=higher,
        note=note,
    )


def _stories(count: int) -> Iterator[np.ndarray]:
    store = TokenStore(paths.TOKENS, "evaluation")
    return (store.story(place) for place in range(count))


def _apart(model: TinyLM, page: Engine, stories: list[list[int]]) -> float:
    """Largest difference of two logits over the largest logit."""
    worst = 0.0
    for ids in stories:
        with decoding_mode(model):
            ours = Session(model, [ids[:PROMPT]]).next_logits()[0].numpy()
        worst = max(
            worst,
            float(
                np.abs(np.array(page.call("logits", ids[:PROMPT])) - ours).max()
                / np.abs(ours).max()
            ),
        )
    return worst


def _nats(one: TinyLM | Engine, stories: list[list[int]]) -> float:
    """Mean loss per token of whole stories."""
    if isinstance(one, Engine):
        total = sum(one.call("nats", ids) for ids in stories)
    else:
        with decoding_mode(one):
            total = -sum(float(token_log_probs(one, ids, 1, "half").sum()) for ids in stories)
    return total / sum(len(ids) - 1 for ids in stories)


def _agreement(
    model: TinyLM, page: Engine, stories: list[list[int]], banned: list[int], eos: int | None
) -> tuple[float, int]:
    """Share of greedy tokens that are equal, counted up to each text's first difference; texts without any."""
    equal = whole = 0
    for ids in stories:
        greedy = DecodeSettings(temperature=0.0)
        (ours,) = generate(
            model,
            [ids[:PROMPT]],
            greedy,
            max_new_tokens=NEW,
            eos_id=eos,
            banned=banned,
            stop_at_eos=False,
        )
        theirs = page.call("generate", ids[:PROMPT], NEW, {})
        place = next((place for place in range(NEW) if ours.ids[place] != theirs[place]), NEW)
        equal, whole = equal + place, whole + (place == NEW)
    return equal / (equal + len(stories) - whole), whole


def _word_50k() -> bytes:
    """A model of that preset's shape with random weights."""
    shape: dict[str, Any] = {
        key: getattr(WORD_50K, key) for key in ("layers", "heads", "feed_forward", "context")
    }
    shape |= AS_PRESET | {"dropout": 0.0, "norm_eps": 1e-5}
    torch.manual_seed(1)
    model = new_model(ModelSettings(**shape), torch.randn(WORD_50K.vocab, WORD_50K.width))
    settings = DecodeSettings(temperature=0.8, top_k=50)
    tokenizer = WordTokenizer((f"w{i}" for i in range(4, WORD_50K.vocab)), Splitter(True, "drop"))
    return build_page(
        model.eval(), rule_of(tokenizer, ""), facts(model, tokenizer, settings, None, "")
    )


_TIMED = """(count) => {
  lab.rules.stop = false;
  lab.start("once upon a time");
  const begun = performance.now();
  lab.grow();
  const first = performance.now() - begun;
  for (let i = 1; i < count; i++) lab.grow();
  return [first, (1000 * count) / (performance.now() - begun)];
}"""


def _in_chromium(page: bytes, options: Options) -> list[Row]:
    """Opening from the disk, the first token and the speed; no rows without Playwright or without the browser."""
    browser = shutil.which("chromium")
    if browser is None or importlib.util.find_spec("playwright") is None:
        print(
            "no chromium, or no playwright (pip install -e '.[browser]'): speed was not measured",
            flush=True,
        )
        return []
    from playwright.sync_api import sync_playwright

    opened, first, rates, large = [], [], [], []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tabs = [chromium.new_page(), chromium.new_page()]
        for tab, content, name in zip(tabs, (page, _word_50k()), ("run", "word-50k"), strict=True):
            file = (options.work / f"lab-{name}.html").absolute()
            write_bytes(file, content)
            tab.goto(file.as_uri())
        for _ in range(options.trials):
            begun = time.perf_counter()
            tabs[0].reload()
            tabs[0].wait_for_selector("#lab:not([hidden])")
            opened.append(time.perf_counter() - begun)
            first.append(tabs[0].evaluate(_TIMED, 1)[0])
            rates.append(tabs[0].evaluate(_TIMED, SPEED)[1])
            large.append(tabs[1].evaluate(_TIMED, SPEED)[1])
        chromium.close()
    return [
        _row("opening the page in Chromium", "s", opened, must=1.0),
        _row("first token after it", "ms", first, must=300.0),
        _row("sampling, the run's model, one core", "tokens/s", rates, must=1000.0, higher=True),
        _row(
            "sampling, word-50k's shape, random weights, one core",
            "tokens/s",
            large,
            must=120.0,
            higher=True,
        ),
    ]

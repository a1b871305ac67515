"""BLEU by the length of the prompt, of the trained model on 40 held-out stories."""

from pathlib import Path

import pandas as pd

from tinylm.base import paths
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids, generate_text
from tinylm.learn.course import load_course
from tinylm.model.checkpoint import load_model
from tinylm.text.stories import read_stories
from tinylm.vocab.open_tokenizer import open_tokenizer

PROMPTS = (5, 10, 20, 40, 60, 80)
NEW = 30


def _ours():
    names = {}
    exec(load_course()["case8"].solution(), names)
    return names["score"]


score = _ours()


def run(updates):
    model, _ = load_model(paths.MODELS)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    texts = (
        tokenizer.split(story["text"]) for story in read_stories(Path(paths.STORIES), "held_out")
    )
    stories = [words for words in texts if len(words) >= PROMPTS[-1] + NEW][:40]
    settings = DecodeSettings(temperature=0.8, top_k=50)
    decoder = Decoder(model=model, eos_id=tokenizer.eos_id, banned=banned_ids(tokenizer))
    values = []
    for count in PROMPTS:
        prompts = [" ".join(words[:count]) for words in stories]
        written = generate_text(
            decoder, tokenizer, prompts, settings, max_new_tokens=NEW, stop_at_eos=False
        )
        values.append(round(score(stories, [text.split() for text in written], count), 4))
    return pd.DataFrame({"bleu": values}), written[:2]


def replacements(student):
    return {"plan.score": student.score}

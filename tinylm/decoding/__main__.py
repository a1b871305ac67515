"""Continue a text with the trained model: `python -m tinylm.decoding "once upon a time"`."""

import sys

from tinylm.base import paths
from tinylm.base.config import InputError, load_params, read_section
from tinylm.base.seeding import seed_everything
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.model.checkpoint import check_vocabulary, load_model
from tinylm.vocab.kinds import open_tokenizer

NEW_TOKENS = 160


def main() -> None:
    """Print each argument with its continuation, by the settings in section `decode`."""
    settings = read_section(load_params(), "decode", DecodeSettings)
    seed_everything(settings.seed, threads=1)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    model, _ = load_model(paths.MODELS, "cpu")
    tokenizer = open_tokenizer(paths.TOKENIZER)
    prompts = sys.argv[1:] or [""]
    for text in generate_text(model, tokenizer, prompts, settings, max_new_tokens=NEW_TOKENS):
        print(text)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

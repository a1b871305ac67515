"""The model, prompts and settings that decoding is tested with."""

from tests.support.peaky_model import make_model, model, prompts, settings  # noqa: F401

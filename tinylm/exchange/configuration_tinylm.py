"""Config of TinyLM for the library `transformers`; shipped with an export, see `remote_code.py`."""

import dataclasses
from typing import Any

from transformers import PretrainedConfig


class TinyLMConfig(PretrainedConfig):
    """`vocab_size`; `width`, of the embedding; `model`, the section of tinylm's params.yaml."""

    model_type = "tinylm"


def setting(**_: Any) -> Any:
    """A field of settings.py without its allowed values: tinylm checked them before training."""
    return dataclasses.field()

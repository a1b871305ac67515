"""The model fixtures of tests/model."""

from tests.model.conftest import exact, ids, new_model, new_settings

__all__ = ["exact", "ids", "new_model", "new_settings"]

from tinylm.model.transformer import sinusoids

__all__ = ["sinusoids"]

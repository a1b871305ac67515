import torch

from tinylm.decoding.beam_search import beam_search as search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.session import Step
from tinylm.decoding.settings import BeamSettings


class _Model(torch.nn.Module):
    """Looks like a model with these log-probabilities to the search."""

    def __init__(self, log_probs, length):
        super().__init__()
        self.log_probs = log_probs
        self.vocab_size = len(log_probs([]))
        self.embedding = torch.zeros(1)
        self.settings = type("Settings", (), {"context": length + 1})()


class _Step(Step):
    def fill(self, windows, sizes, cache):
        rows = [self.model.log_probs(ids[1:size].tolist()) for ids, size in zip(windows, sizes)]
        return torch.tensor(rows, dtype=torch.float64).clamp(min=-1e9)


def beam_search(log_probs, width, max_length, eos, alpha):
    model = _Model(lambda ids: log_probs(ids) if eos not in ids else [0.0] * size, max_length)
    size = len(log_probs([]))
    # The project's width is at most V; a wider beam needs a model with words that are never drawn.
    extra = max(0, width - size)
    plain = model.log_probs
    model.log_probs = lambda ids: (
        [*plain(ids), *([-1e9] * extra)] if max(ids, default=0) < size else [-1e9] * (size + extra)
    )
    model.vocab_size = size + extra
    decoder = Decoder(model=model, eos_id=eos, banned=[], use_cache=False, step=_Step(model))
    settings = BeamSettings(width=width, length_penalty=alpha)
    (best,) = search(decoder, [[0]], settings, max_new_tokens=max_length)
    return best[0].ids, best[0].score

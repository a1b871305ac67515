"""When a run passes the end of an epoch, and the moments whose weights are to be kept."""

from tinylm.base.config import PARAMS_FILE, InputError

CLOSE = 0.02


class Moments:
    """Chosen moments of a run, in epochs, met by the first update that reaches them.

    A pure function of the tokens seen, so that a resumed run meets the same. Raises InputError where one lies behind
    the run's end.
    """

    def __init__(self, epochs: tuple[float, ...], tokens_per_epoch: int, end: int) -> None:
        self.tokens_per_epoch = tokens_per_epoch
        self.at = {epoch: round(epoch * tokens_per_epoch) for epoch in sorted(epochs)}
        if 0 in self.at.values():
            raise InputError(f"{PARAMS_FILE}: train.keep_epochs holds {min(self.at):g}; allowed: at least one token")
        late = [epoch for epoch, tokens in self.at.items() if tokens > end]
        if late:
            raise InputError(
                f"{PARAMS_FILE}: train.keep_epochs holds {late[0]:g}; allowed: at most "
                f"{end / tokens_per_epoch:.6g}, where this run ends"
            )

    def between(self, before: int, now: int) -> list[float]:
        """The chosen epochs that were reached after `before` tokens and by `now`."""
        return [epoch for epoch, tokens in self.at.items() if before < tokens <= now]

    def nearly(self, last: int, end: int) -> list[float]:
        """The chosen epochs that a run which stops after `last` tokens, short of `end`, has reached to within 2 %."""
        return [epoch for epoch, tokens in self.at.items() if last < tokens <= end and tokens - last <= CLOSE * tokens]

    def ends_an_epoch(self, before: int, now: int) -> bool:
        """Whether an epoch ended after `before` tokens and by `now`."""
        return now // self.tokens_per_epoch > before // self.tokens_per_epoch

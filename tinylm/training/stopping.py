"""Early stopping on the held-out loss."""

import dataclasses
import math


@dataclasses.dataclass
class EarlyStopping:
    """Remembers the best held-out loss; `should_stop` after `patience` validations in a row without better."""

    patience: int | None
    best: float = math.inf
    best_update: int = 0
    stale: int = 0  # validations since the best

    def observe(self, loss: float, update: int, counts: bool = True) -> bool:
        """Take a validation's loss; True where it is the best so far. One that does not count takes no patience."""
        if loss < self.best:
            self.best, self.best_update, self.stale = loss, update, 0
            return True
        self.stale += counts
        return False

    @property
    def should_stop(self) -> bool:
        """True once patience has run out (never where it is null)."""
        return self.patience is not None and self.stale >= self.patience

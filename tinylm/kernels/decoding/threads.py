"""How many threads a step takes: all of them or one, whichever is faster beside what else is running."""


class Threads:
    """The number for steps of one size, `now`, from the times of the steps before. The bits are the same with either.

    Threads that meet at each product all wait for the one whose core another process has; one thread waits for nobody.
    The other number has a block of steps between two blocks of this one, and stays if it is faster than both. It has
    its turn when blocks take longer than they used to, and now and then, since nothing else tells that the other
    process has gone.
    """

    BLOCK, SLOWER = 8, 1.3  # steps; of the usual time
    # Blocks from one turn to the next: at least SOON, at most LATE while all threads are used and BACK while one is.
    SOON, LATE, BACK = 8, 64, 16

    def __init__(self, most: int) -> None:
        self.most = self.now = most
        self._steps, self._spent = 0, 0.0  # of this block
        self._blocks, self._usual = (
            self.SOON // 2,
            0.0,
        )  # since the last turn; seconds of a block then
        self._turn: list[
            float
        ] = []  # seconds of a block of this number, of the other and of this again

    def took(self, seconds: float) -> None:
        """Count a step, after which `now` may be the other number."""
        self._steps, self._spent = self._steps + 1, self._spent + seconds
        if self._steps < self.BLOCK:
            return
        spent, self._steps, self._spent, self._blocks = self._spent, 0, 0.0, self._blocks + 1
        late = self._blocks >= (self.LATE if self.now == self.most else self.BACK)
        late = late or (self._blocks >= self.SOON and spent > self.SLOWER * self._usual)
        if not self._turn and not late:
            return
        self._turn.append(spent)
        faster = len(self._turn) == 3 and self._turn[1] < min(self._turn[::2])
        if len(self._turn) < 3 or faster:
            self.now = self.most + 1 - self.now
        if len(self._turn) == 3:
            self._usual, self._turn, self._blocks = min(self._turn[faster::2]), [], 0

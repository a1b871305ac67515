"""Snapshots after which a training dies."""

from tinylm.train.snapshot import Snapshots


class CutOff(Exception):
    pass


class Dying(Snapshots):
    """Writes a snapshot every few updates and dies behind the N-th."""

    def __init__(self, *args, every, dies, **kwargs):
        super().__init__(*args, **kwargs)
        self.every, self.dies, self.asked, self.saved = every, dies, 0, 0

    def due(self):
        self.asked += 1
        return self.asked % self.every == 0

    def save(self, *args):
        super().save(*args)
        self.saved += 1
        if self.saved == self.dies:
            raise CutOff

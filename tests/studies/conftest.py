"""The tiny pipeline folder on which the benchmarks of the pipeline are tested too."""

from tests.bench.conftest import folder, params

__all__ = ["folder", "params"]

"""Which modules are mutated, and which tests may kill a mutant of each: those of its own rooms, all of them fast."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ["tests/base/test_files.py", "tests/host/test_processes.py"]
# a room or a module: folders and files of tests
ROOMS = {
    "tinylm/base/files.py": FILES,
    "tinylm/host/processes.py": FILES,
    "tinylm/training/optimizers.py": ["tests/training/test_optimizers.py", "tests/training/test_native_training.py"],
    "tinylm/cost/describe.py": ["tests/cost/test_describe.py"],
    "tinylm/cost/traffic.py": ["tests/cost/test_traffic.py"],
    "tinylm/model": ["tests/model", "tests/kernels"],
    "tinylm/kernels/training": ["tests/kernels", "tests/model"],
    "tinylm/beam": ["tests/beam"],
    "tinylm/decoding": ["tests/decoding"],
    "tinylm/kernels/decoding": ["tests/kernels", "tests/decoding"],
}
TARGETS: dict[str, list[str]] = {
    path.relative_to(ROOT).as_posix(): tests
    for room, tests in ROOMS.items()
    for path in ([ROOT / room] if room.endswith(".py") else sorted((ROOT / room).glob("*.py")))
    if path.stat().st_size
}
NOT_ASKED = [  # chance decides what the first sees; the second is slow, and others see what it sees
    "tests/decoding/test_sampling.py::test_frequencies_match_exact_probabilities",
    "tests/decoding/test_sampling.py::test_no_setting_lets_a_sample_depend_on_the_rest_of_the_batch",
]

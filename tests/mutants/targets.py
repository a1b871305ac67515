"""Which modules are mutated, and which tests may kill a mutant of each: those of its own rooms, all of them fast."""

FILES = ["tests/test_files.py", "tests/test_processes.py"]
STORAGE = ["tests/model/test_storage.py"]
DECODING = ["tests/decoding"]
MODEL = ["tests/model"]

TARGETS: dict[str, list[str]] = {
    "tinylm/files.py": [*FILES, *STORAGE],
    "tinylm/processes.py": FILES,
    "tinylm/training/optimizers.py": ["tests/training/test_optimizers.py", "tests/training/test_snapshot.py"],
    "tinylm/model/attention.py": MODEL,
    "tinylm/model/describe.py": MODEL,
    "tinylm/model/initial.py": MODEL,
    "tinylm/model/kv_cache.py": [*MODEL, *DECODING],
    "tinylm/model/lm.py": [*MODEL, *DECODING],
    "tinylm/model/losses.py": MODEL,
    "tinylm/model/norms.py": MODEL,
    "tinylm/model/positions.py": MODEL,
    "tinylm/model/recompute.py": MODEL,
    "tinylm/model/settings.py": [*MODEL, "tests/test_config.py"],
    "tinylm/model/storage.py": MODEL,
    "tinylm/decoding/beam.py": DECODING,
    "tinylm/decoding/filters.py": DECODING,
    "tinylm/decoding/sampling.py": DECODING,
    "tinylm/decoding/session.py": DECODING,
    "tinylm/decoding/settings.py": DECODING,
    "tinylm/decoding/texts.py": DECODING,
}

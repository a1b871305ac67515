"""Which modules are mutated, and which tests may kill a mutant of each: those of its own rooms, all of them fast."""

MODEL = "tests/model/"
DECODING = "tests/decoding/"
FAST = [DECODING + "test_fast.py"]
FILES = ["tests/base/test_files.py", "tests/host/test_processes.py"]

TARGETS: dict[str, list[str]] = {
    "tinylm/base/files.py": [*FILES, MODEL + "test_storage.py"],
    "tinylm/host/processes.py": FILES,
    "tinylm/training/optimizers.py": ["tests/training/test_optimizers.py"],
    "tinylm/model/attention.py": [
        MODEL + name
        for name in ("test_attention.py", "test_low_blocks.py", "test_devices.py", "test_lm.py", "test_kv_cache.py")
    ],
    "tinylm/kernels/training/attention_core.py": [MODEL + "test_low_blocks.py", MODEL + "test_attention.py"],
    "tinylm/cost/describe.py": [MODEL + "test_describe.py"],
    "tinylm/model/dropout.py": [MODEL + name for name in ("test_dropout.py", "test_low_blocks.py", "test_devices.py")],
    "tinylm/model/initial.py": [MODEL + "test_initial.py"],
    "tinylm/model/kv_cache.py": [MODEL + "test_kv_cache.py", MODEL + "test_devices.py", DECODING + "test_session.py"],
    "tinylm/model/lm.py": [
        MODEL + name for name in ("test_lm.py", "test_initial.py", "test_losses.py", "test_recompute.py")
    ],
    "tinylm/model/losses.py": [MODEL + "test_losses.py", MODEL + "test_devices.py", MODEL + "test_lm.py"],
    "tinylm/kernels/training/low_blocks.py": [MODEL + "test_low_blocks.py"],
    "tinylm/model/norms.py": [MODEL + "test_norms.py", MODEL + "test_low_blocks.py", MODEL + "test_lm.py"],
    "tinylm/kernels/training/output_layer.py": [MODEL + "test_losses.py", MODEL + "test_devices.py"],
    "tinylm/model/positions.py": [MODEL + "test_positions.py", MODEL + "test_lm.py"],
    "tinylm/model/recompute.py": [MODEL + "test_recompute.py"],
    "tinylm/model/settings.py": [MODEL + "test_settings.py", MODEL + "test_lm.py"],
    "tinylm/model/checkpoint.py": [MODEL + "test_storage.py", MODEL + "test_moments.py"],
    "tinylm/cost/traffic.py": [MODEL + "test_traffic.py"],
    "tinylm/decoding/beam.py": [DECODING + "test_beam.py"],
    "tinylm/kernels/decoding/decoder.py": FAST,
    "tinylm/kernels/decoding/build.py": FAST,
    "tinylm/scoring/precision_changes.py": FAST,
    "tinylm/kernels/decoding/choosing.py": FAST,
    "tinylm/kernels/decoding/graphs.py": FAST,
    "tinylm/kernels/decoding/rounding.py": FAST,
    "tinylm/kernels/decoding/session.py": FAST,
    "tinylm/kernels/decoding/weights.py": FAST,
    "tinylm/decoding/filters.py": [DECODING + "test_filters.py", DECODING + "test_sampling.py"],
    "tinylm/decoding/sampling.py": [DECODING + "test_sampling.py", DECODING + "test_texts.py"],
    "tinylm/decoding/session.py": [DECODING + "test_session.py", DECODING + "test_beam.py"],
    "tinylm/decoding/settings.py": [DECODING + "test_settings.py"],
    "tinylm/decoding/texts.py": [DECODING + "test_texts.py"],
}
NOT_ASKED = [  # chance decides what the first sees; the second is slow, and others see what it sees
    DECODING + "test_sampling.py::test_frequencies_match_exact_probabilities",
    DECODING + "test_sampling.py::test_no_setting_lets_a_sample_depend_on_the_rest_of_the_batch",
]

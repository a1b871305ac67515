"""Which stages one edited value of params.yaml runs again: checked by real runs, shown in README.md.

`python tests/pipeline/rerun_table.py` prints the table that stands in README.md between its two markers.
"""

from typing import Any

STAGES = (
    "download",
    "vocab",
    "train",
    "evaluate",
    "beam_bench",
    "kv_bench",
    "accum_run",
    "accum_sweep",
    "ckpt_bench",
    "report",
)
BEGIN, END = "<!-- rerun-table -->", "<!-- /rerun-table -->"

# (section.key, new value on top of the tests' small parameters, the stages that run; all others must not)
RERUNS: tuple[tuple[str, Any, str], ...] = (
    ("runtime.threads", 2, ""),
    ("report.title", "another title", "report"),
    ("ckpt_bench.batch_size", 3, "ckpt_bench report"),
    ("kv_bench.lengths", [7], "kv_bench report"),
    ("beam_bench.prompts", 3, "beam_bench report"),
    ("evaluate.bootstrap", 30, "evaluate report"),
    ("accum_sweep.tokens", 2500, "accum_run accum_sweep report"),
    ("decode.temperature", 0.9, "evaluate beam_bench kv_bench report"),
    ("train.lr", 0.02, "train evaluate beam_bench accum_run accum_sweep report"),
    ("model.heads", 4, "train evaluate beam_bench kv_bench accum_run accum_sweep ckpt_bench report"),
    ("embedding.seed", 2, "vocab train evaluate beam_bench kv_bench accum_run accum_sweep ckpt_bench report"),
    ("vocab.min_count", 2, "vocab train evaluate beam_bench kv_bench accum_run accum_sweep ckpt_bench report"),
    ("data.train_stories", 280, " ".join(STAGES)),
)


def markdown() -> str:
    """The table, from data to runtime: a mark where the stage runs again."""
    head = "| edited | " + " | ".join(STAGES) + " |\n|---|" + ":-:|" * len(STAGES)
    rows = []
    for key, _, ran in reversed(RERUNS):
        marks = " | ".join("●" if stage in ran.split() else " " for stage in STAGES)
        rows.append(f"| `{key}` | {marks} |")
    return "\n".join([head, *rows]) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

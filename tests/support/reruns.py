"""Which stages one edited value of params.yaml runs again: checked by real runs, shown in docs/reference/pipeline.md.

`python -m tests.support.reruns` prints what stands in docs/reference/pipeline.md between the two markers.
"""

from typing import Any

STAGES = (
    "download", "vocab", "train", "evaluate", "beam_bench", "kv_bench", "accum_run", "accum_sweep", "ckpt_bench",
    "seed_train", "seed_score", "seeds", "report"
)  # fmt: skip
BEGIN, END = "<!-- rerun-table -->", "<!-- /rerun-table -->"

# (section.key, new value in the small pipeline, the stages that run: these and no others)
RERUNS: tuple[tuple[str, Any, str], ...] = (
    ("data.train_stories", 280, " ".join(STAGES)),
    ("vocab.min_count", 2, " ".join(STAGES[1:])),
    ("embedding.window", 4, " ".join(STAGES[1:])),
    ("model.heads", 4, " ".join(STAGES[2:])),
    (
        "train.lr",
        0.02,
        "train evaluate beam_bench kv_bench accum_run accum_sweep seed_train seed_score seeds report",
    ),
    # seeds stays where decode and evaluate change: what evaluate hands it is the same
    ("decode.temperature", 0.9, "evaluate beam_bench kv_bench report"),
    ("evaluate.bootstrap", 30, "evaluate seed_score report"),
    ("beam_bench.widths", [1, 3], "beam_bench report"),
    ("kv_bench.lengths", [7], "kv_bench report"),
    ("accum_sweep.tokens", 2500, "accum_run accum_sweep report"),
    ("ckpt_bench.depths", [2], "ckpt_bench report"),
    ("seeds.more", [3], "seed_train seed_score seeds report"),
    ("report.title", "another title", "report"),
    ("runtime.threads", 2, ""),
)


def markdown() -> str:
    """The table: a row an edit, a mark under each stage that runs again."""
    lines = ["| edited | " + " | ".join(STAGES) + " |", "|---|" + ":-:|" * len(STAGES)]
    for key, _, stages in RERUNS:
        marks = ("●" if stage in stages.split() else " " for stage in STAGES)
        lines.append(f"| `{key}` | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

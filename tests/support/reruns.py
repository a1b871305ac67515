"""Which stages one edited value of params.yaml runs again, as docs/reference/pipeline.md shows.

`python -m tests.support.reruns` prints what stands in docs/reference/pipeline.md between the two markers.
"""

STAGES = (
    "download", "vocab", "train", "evaluate", "beam_bench", "kv_bench", "accum_run", "accum_sweep", "ckpt_bench",
    "seed_train", "seed_score", "seeds", "report"
)  # fmt: skip
BEGIN, END = "<!-- rerun-table -->", "<!-- /rerun-table -->"

# (section.key, the stages that run: these and no others)
RERUNS = (
    ("data.train_stories", " ".join(STAGES)),
    ("vocab.min_count", " ".join(STAGES[1:])),
    ("embedding.window", " ".join(STAGES[1:])),
    ("model.heads", " ".join(STAGES[2:])),
    ("train.lr", "train evaluate beam_bench kv_bench accum_run accum_sweep seed_train seed_score seeds report"),
    # seeds stays where decode and evaluate change: what evaluate hands it is the same
    ("decode.temperature", "evaluate beam_bench kv_bench report"),
    ("evaluate.bootstrap", "evaluate seed_score report"),
    ("beam_bench.widths", "beam_bench report"),
    ("kv_bench.lengths", "kv_bench report"),
    ("accum_sweep.tokens", "accum_run accum_sweep report"),
    ("ckpt_bench.depths", "ckpt_bench report"),
    ("seeds.more", "seed_train seed_score seeds report"),
    ("report.title", "report"),
    ("runtime.threads", ""),
)  # fmt: skip


def markdown() -> str:
    """The table: a row an edit, a mark under each stage that runs again."""
    lines = ["| edited | " + " | ".join(STAGES) + " |", "|---|" + ":-:|" * len(STAGES)]
    for key, stages in RERUNS:
        marks = ("●" if stage in stages.split() else " " for stage in STAGES)
        lines.append(f"| `{key}` | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

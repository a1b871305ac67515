"""One line of a file edited, across the rooms: what `old` does is changed by `new`, and with it what stages write.

(file, old, new, the stages whose bytes it can change: these depend on it, and no others)
"""

from tests.support.reruns import STAGES

TRAIN = "train accum_run accum_sweep ckpt_bench seed_train"
DECODE = "evaluate beam_bench kv_bench"
MODEL = f"{TRAIN} {DECODE} seed_score report"

EDITS: tuple[tuple[str, str, str, str], ...] = (
    ("tinylm/base/seeding.py", "digest()[:8]", "digest()[8:16]", " ".join(STAGES)),
    ("tinylm/base/machine.py", 'name != "cpu" and available', "available", " ".join(STAGES)),
    ("tinylm/base/printable.py", ":04X}", ":05X}", " ".join(STAGES)),
    ("tinylm/kernels/library.py", '"-O3", ', '"-O3", "-ffast-math", ', f"download vocab {MODEL}"),
    ("tinylm/kernels/text/clean_blocks.cpp", "0x20", "0x21", "download vocab"),
    ("tinylm/kernels/train/numbers.h", "x >> 31", "x >> 30", TRAIN),
    ("tinylm/kernels/train/adam.cpp", "r.decoupled ?", "!r.decoupled ?", TRAIN),
    ("tinylm/kernels/decoding/products.h", "0.5f * x", "0.25f * x", f"{DECODE} seed_score report"),
    ("tinylm/download/in_order.py", "waiting.popleft()", "waiting.pop()", "download vocab"),
    ("tinylm/download/cleaning.py", '"\\r\\n", "\\n"', '"\\r\\n", " "', "download"),
    (
        "tinylm/storybook/lexicon.txt",
        "ball, kite",
        "kite, ball",
        "download evaluate beam_bench",
    ),
    ("tinylm/embedding/skipgram.py", "return matrix", "return -matrix", "vocab"),
    ("tinylm/vocab/token_store.py", 'mode="r")', 'mode="r")[::-1]', f"vocab {MODEL}"),
    ("tinylm/vocab/words.py", "if lower_case:", "if not lower_case:", f"vocab {MODEL}"),
    ("tinylm/model/ops.py", "softmax(scores + mask", "softmax(scores * 1.01 + mask", MODEL),
    (
        "tinylm/model/recompute.py",
        "return None, x.grad, None",
        "return None, 2 * x.grad, None",
        MODEL,
    ),
    ("tinylm/train/precision.py", '"bf16" if', '"fp32" if', TRAIN),
    ("tinylm/train/schedules.py", "0.5 * (1.0 + math", "0.4 * (1.0 + math", TRAIN),
    ("tinylm/model/describe.py", "parameter.numel()", "2 * parameter.numel()", "train"),
    (
        "tinylm/train/split_loss.py",
        "math.exp",
        "2 * math.exp",
        "train evaluate accum_run accum_sweep seed_train seed_score",
    ),
    (
        "tinylm/evaluate/bleu_counts.py",
        "1 - ratio",
        "1.1 - ratio",
        "evaluate beam_bench seed_score",
    ),
    (
        "tinylm/decoding/filters.py",
        "distance / temperature",
        "distance",
        f"train {DECODE} seed_score report",
    ),
    (
        "tinylm/decoding/beam_search.py",
        "return search.kept",
        "return search.kept[::-1]",
        "beam_bench",
    ),
    ("tinylm/bench/sweep.py", "/ len(tail)", "/ (1 + len(tail))", "accum_sweep"),
    ("tinylm/report/published.yaml", "width: 300", "width: 301", "report"),
    ("tinylm/report/paper.typ", "pt", "mm", "report"),
    ("tinylm/report/page.css", "#1f2329", "#1f2328", "report"),
    ("tinylm/lab/package.py", "clip(-steps, steps)", "clip(-steps, 0)", "report"),
    ("tinylm/lab/page/model.js", "1.061405429", "1.061405428", "report"),
    ("tinylm/api/own_texts.py", "ids[:room]", "ids[: room - 1]", "report"),
    ("stages/seeds.py", "sys.exit", "exit", "seeds"),
    ("tinylm/host/runtime.py", "every_s: float = 5.0", "every_s: float = 6.0", ""),
    ("tinylm/host/workers.py", "SIG_IGN", "SIG_DFL", ""),
    ("tinylm/host/params.py", "[:80]", "[:81]", ""),
    ("tinylm/cli/generate.py", "visible(", "str(", ""),
)

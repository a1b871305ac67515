"""Stage ckpt_bench: gradient checkpointing; memory and time against depth, bit-identical gradients."""

import sys
import time

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.machine import pick_device
from tinylm.base.results import write_results
from tinylm.base.seeding import seed_everything
from tinylm.bench import ckpt, measure
from tinylm.host.command import guard
from tinylm.host.runtime import RuntimeSettings, conditions, in_words
from tinylm.host.times import stage_time
from tinylm.model.settings import ModelSettings
from tinylm.presets.sections import stage_params
from tinylm.vocab.tokenizer import open_tokenizer

FIGURES = ("peak_mib", "process_mib", "tokens_per_s", *measure.with_spread(("step_s", "epoch_s")))


def main() -> None:
    start = time.perf_counter()
    measure.start_server(ckpt.__name__)
    params = stage_params()
    settings = read_section(params, "ckpt_bench", ckpt.CkptBenchSettings)
    model = read_section(params, "model", ModelSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    measured_on = conditions(pick_device(runtime.device), runtime.threads)
    seed_everything(ckpt.SEED, runtime.threads)
    pad_id = open_tokenizer(paths.TOKENIZER).pad_id
    print(f"conditions: {in_words(measured_on)}")

    results = ckpt.run(
        ckpt.make_tasks(settings, model, pad_id, paths.DATA, runtime.device, runtime.threads)
    )
    measured, failed = measure.split_failures("ckpt_bench", results)
    depths = ckpt.compare(measured)
    rows, missing = measure.records(measured, ("layers", "recompute"), FIGURES)
    same = (
        True if depths else None
    )  # a difference has failed the stage; None: nothing to compare with was measured
    write_results(
        "ckpt_bench", {"same_loss": same, "same_gradients": same, "depths": depths}, same=same
    )
    plotted = [
        (row["layers"], ckpt.SERIES[row["recompute"]], row["peak_mib"])
        for row in rows
        if "peak_mib" in row
    ]
    tables = {paths.plot("ckpt_memory_time"): [("layers", "series", "value"), *plotted]}
    pairs, others = ckpt.apart(rows)
    known = {
        "settings": pairs,
        "other_ways": others,
        "not_measured": failed + missing,
        "measured": ckpt.MEASURED,
    }
    stage_time("ckpt_bench", start, measured_on, known, tables)


if __name__ == "__main__":
    sys.exit(guard(main))

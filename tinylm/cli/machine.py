"""What a run needs from this machine and from the files other than params.yaml."""

import dataclasses
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.machine import pick_device
from tinylm.cli.describe import blank_model
from tinylm.cli.duration import training_seconds, training_tokens
from tinylm.cli.finding import Finding
from tinylm.embedding.source import check_vectors
from tinylm.host.params import Sections, linked_outputs
from tinylm.host.workers import cores
from tinylm.model.describe import summary
from tinylm.presets.write import hub_names, preset_values

OLDEST_PYTHON = (3, 11)
FOLDERS = (*paths.OUTPUTS, paths.RUNS)
STORY_BYTES = 1000  # of an average story, for estimates
HUB_STORIES = 2_140_000
GIB, MIB = 2**30, 2**20
FROM_HUB = "set it, or tinylm preset NAME --hub, with data from the Hugging Face hub"
GIT = "git init && git add . && git commit -m start"


def _readable(key: str, name: str) -> Finding:
    """A file or folder that params.yaml names: stages depend on it, so it must be there whether it is read or not."""
    path = Path(name)
    if not os.path.exists(path):  # unlike Path.exists, it treats a name that is too long as missing
        home = (
            "; '~' stands for nothing in params.yaml, write the whole path"
            if name.startswith("~")
            else ""
        )
        return Finding(key, name, f"params.yaml: {key} = {name!r}: no such file or folder{home}")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return Finding(key, name, f"params.yaml: {key} = {name!r}: no permission to read it")
    return Finding(key, name)


def check_files(read: Sections) -> Iterator[Finding]:
    """Whether the corpus and the vector file can be read; what they hold is the rehearsal's."""
    data, embedding = read.get("data"), read.get("embedding")
    if data is not None:
        found = _readable("data.path", data.path)
        if found.problem and data.path in {
            preset_values(name)["data.path"] for name in hub_names()
        }:
            found = dataclasses.replace(found, problem=f"{found.problem}; {FROM_HUB}")
        yield found
        if data.source == "hub":
            yield Finding("data.hub_id", data.hub_id, note="asked for when download runs")
    if embedding is not None:
        found = _readable("embedding.path", embedding.path)
        if embedding.source == "file" and embedding.hub_id is None and not found.problem:
            try:
                check_vectors(Path(embedding.path), embedding.width)
            except InputError as error:
                found = Finding(found.what, found.value, str(error))
        yield found
        if embedding.source == "file" and embedding.hub_id is not None:
            yield Finding("embedding.hub_id", embedding.hub_id, note="asked for when vocab runs")


def stories_bytes(read: Sections) -> int:
    """Size of the corpus as text: that of local files, otherwise an estimate from the number of stories."""
    data = read.get("data")
    if data is None:
        return 0
    if data.source == "local":
        path = Path(data.path)
        files = [path] if path.is_file() else [part for part in path.rglob("*") if part.is_file()]
        return sum(file.stat().st_size for file in files if file.exists())
    return STORY_BYTES * ((data.train_stories or HUB_STORIES) + (data.evaluation_stories or 0))


def needs(read: Sections, vocab_size: int | None) -> tuple[int, int]:
    """About how many bytes of disk and of memory a run takes.

    Disk: the corpus three times (as delivered, stories and ids, DVC's cache) and the weights ten times (model,
    cache, snapshots with the optimizer's state). Memory: weights, gradients, optimizer state and the activations of
    one mini-batch, 14 D + 3 F + 3 H T numbers per token and layer.
    """
    disk, memory = 3 * stories_bytes(read), 0
    if vocab_size and {"model", "embedding", "train"} <= read.keys():
        settings, train = read["model"], read["train"]
        width, context = read["embedding"].width, settings.context
        if settings.problems_with_width(width):
            return disk, memory
        totals = summary(blank_model(settings, vocab_size, width), train.optimizer)
        numbers = 14 * width + 3 * settings.feed_forward + 3 * settings.heads * context
        layers = settings.layers if train.recompute == "none" else 1
        memory = totals["weight_bytes"] + totals["gradient_bytes"] + totals["optimizer_bytes"]
        memory += 4 * train.batch_size * context * layers * numbers
        disk += 10 * totals["weight_bytes"]
    return disk, memory


def _room(read: Sections, vocab_size: int | None) -> Iterator[Finding]:
    import psutil

    disk, memory = needs(read, vocab_size)
    free = shutil.disk_usage(".").free
    problem = (
        f"disk: about {disk / GIB:.1f} GiB needed, {free / GIB:.1f} free" if disk > free else ""
    )
    yield Finding("disk", f"{free / GIB:,.1f} GiB free, about {disk / GIB:.2f} needed", problem)
    available = psutil.virtual_memory().available
    problem = ""
    if memory > available and getattr(read.get("runtime"), "device", "") != "cuda":
        problem = (
            f"memory: about {memory / GIB:.1f} GiB needed, {available / GIB:.1f} free; lower train.batch_size or "
            "model.context, or set train.recompute"
        )
    needed = f", about {memory / MIB:,.0f} MiB needed to train" if memory else ""
    yield Finding("memory", f"{available / GIB:,.1f} GiB free{needed}", problem)


def _above(name: str) -> Path | None:
    """The nearest folder, from here upwards, that contains `name`."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / name).exists()), None)


def _repository() -> Iterator[Finding]:
    git, dvc = _above(".git"), _above(".dvc")
    problem = (
        "" if git else f"no git repository here (a ZIP holds none), which DVC needs; type: {GIT}"
    )
    yield Finding("git", str(git or "none"), problem)
    problem = ""
    if importlib.util.find_spec("dvc") is None:
        problem = "dvc is not installed in this Python"
    elif dvc is None:
        problem = "no .dvc folder here; dvc init, or run in the clone"
    yield Finding("dvc", str(dvc or "none"), problem)
    try:
        yield Finding("home folder", str(Path.home()))  # where DVC and git look for their settings
    except RuntimeError:
        yield Finding(
            "home folder",
            "none",
            "HOME is not set, and this user has no entry in passwd; type: export HOME=/tmp",
        )
    yield from (Finding(line.split()[0], "a link", line) for line in linked_outputs())
    locked = [
        name for name in (".", *FOLDERS) if Path(name).exists() and not os.access(name, os.W_OK)
    ]
    problem = f"no permission to write to {', '.join(locked)}" if locked else ""
    yield Finding("folders", "written to by the stages", problem)


def _time(
    read: Sections, vocab_size: int | None, tokens_per_epoch: int | None
) -> Iterator[Finding]:
    """About how long the run will take."""
    needed = {"model", "embedding", "train", "accum_sweep", "seeds", "runtime"}
    if (
        not vocab_size
        or not needed <= read.keys()
        or read["model"].problems_with_width(read["embedding"].width)
    ):
        return
    tokens = training_tokens(read, tokens_per_epoch)
    if tokens is None:
        yield Finding("training time", "not known before all stories are read")
        return
    seconds = training_seconds(read, vocab_size, tokens, pick_device(read["runtime"].device))
    told = f"{seconds / 60:,.0f} min" if seconds >= 90 else f"{seconds:,.0f} s"
    yield Finding("training time", f"about {told}: {tokens:,} tokens, all runs together")


def check_machine(
    read: Sections, vocab_size: int | None, tokens_per_epoch: int | None = None
) -> Iterator[Finding]:
    """Python, cores, device, disk, memory, time, git and DVC. The sizes are estimates; without them less is said."""
    old = "" if sys.version_info >= OLDEST_PYTHON else "Python is too old; allowed: 3.11 or newer"
    yield Finding("python", platform.python_version(), old)
    runtime = read.get("runtime")
    if runtime is not None:
        available = cores()
        note = (
            f"runtime.threads = {runtime.threads}: more than the cores; slower"
            if runtime.threads > available
            else ""
        )
        yield Finding("threads", f"{runtime.threads} on {available} cores", note=note)
        try:
            yield Finding("device", f"{runtime.device}: {pick_device(runtime.device)}")
            yield from _time(read, vocab_size, tokens_per_epoch)
        except InputError as error:
            yield Finding("device", runtime.device, str(error))
        if runtime.logger != "none" and importlib.util.find_spec(runtime.logger) is None:
            yield Finding(
                "runtime.logger",
                runtime.logger,
                f"not installed; pip install {runtime.logger}, or none",
            )
    yield from _room(read, vocab_size)
    yield from _repository()

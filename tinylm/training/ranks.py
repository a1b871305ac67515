"""Start and end of a run's ranks: N processes on this host, or those that torchrun has started on several.

However a rank ends, the user gets one line. A rank that fails leaves the reason in the run's key-value store; one that
leaves none was killed. Here a parent starts the ranks by fork, before torch has made a thread, passes signals on and
ends those that are left; the ranks die with it.
"""

import contextlib
import ctypes
import datetime
import json
import multiprocessing
import os
import shlex
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import Any

import torch
import torch.distributed as dist

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.command import CommandFailed, Interrupted, one_line
from tinylm.training.distributed import Group, RankLost

GRACE_S = 30.0  # for the others to save and end, once a rank is gone
_HEARD_S = 3.0  # for what other hosts have to tell
_HERE = "127.0.0.1"
_TOLD = 3  # exit code of a rank that has left its reason in the store
Work = Callable[[Group], None]
Report = dict[str, Any]


def in_ranks(processes: int, work: Work) -> None:
    """Call work(group) once in each of the run's processes, and return or raise what came of it.

    One process: in this very one. Under torchrun (RANK, WORLD_SIZE) this process is a rank already. With
    TINYLM_TORCHRUN, its arguments, this command starts itself anew under torchrun.
    """
    arguments = os.environ.get("TINYLM_TORCHRUN")
    _patience_s()  # a mistake is told before any rank starts
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _started_by_torchrun(processes, work)
    elif arguments:
        words = [sys.executable, "-m", "torch.distributed.run", *_words(arguments), *sys.orig_argv[1:]]
        sys.stdout.flush()
        os.execv(sys.executable, words)
    elif processes == 1:
        work(Group())
    else:
        _start_here(processes, work)


def _patience_s() -> float:
    """Seconds for a rank that does not answer. Raises InputError."""
    told = os.environ.get("TINYLM_PATIENCE_S", "300")
    with contextlib.suppress(ValueError):
        if 1 <= float(told) <= 1e6:
            return float(told)
    raise InputError(f"environment: TINYLM_PATIENCE_S = {told!r}; allowed: seconds, 1 to 1000000")


def _words(arguments: str) -> list[str]:
    """TINYLM_TORCHRUN in words, read once as torchrun will read them. Raises InputError."""
    from torch.distributed.run import get_args_parser  # slow, and asked for seldom

    def refuse(message: str) -> None:
        raise ValueError(message)

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[assignment, method-assign]
    try:
        words, mine = shlex.split(arguments), sys.orig_argv[1:]
        read = parser.parse_args([*words, *mine]).training_script
        if read != parser.parse_args(mine).training_script:
            raise ValueError(f"{read!r} is no option")
        return words
    except ValueError as error:
        raise InputError(
            f"environment: TINYLM_TORCHRUN = {arguments!r}: {error}; allowed: arguments of torchrun"
        ) from None


@contextlib.contextmanager
def _joined(store: dist.Store, group: Group, lead_address: str) -> Iterator[None]:
    """Connect the ranks; gradients on cards travel by NCCL, all else by gloo."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface_to(lead_address))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    patience = datetime.timedelta(seconds=_patience_s())
    try:
        dist.init_process_group(backend, store=store, rank=group.rank, world_size=group.size, timeout=patience)
    except RuntimeError as error:
        raise RankLost(str(error).strip().partition("\n")[0][:200]) from None
    yield
    group.wait()  # for the lead's last file
    dist.destroy_process_group()


def _interface_to(address: str) -> str:
    """Name of the network interface by which this host reaches another: gloo's own guess is the host's name."""
    import psutil

    family, kind, _, _, place = socket.getaddrinfo(address, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)
        mine = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(found.address.partition("%")[0] == mine for found in addresses):
            return name
    raise InputError(f"MASTER_ADDR = {address!r}: no network interface leads there; set GLOO_SOCKET_IFNAME")


def _silence() -> None:
    """What this rank prints is what another one prints too."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _ignore_signals() -> None:
    """The first rank of the host notes them for all."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _report(error: BaseException) -> Report:
    """An exception as JSON holds it."""
    if os.environ.get("TINYLM_DEBUG") == "1":
        traceback.print_exc(file=sys.__stderr__)
    if isinstance(error, RankLost):
        return {"kind": "lost", "text": str(error), "kept": error.kept}
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return {"kind": "signal", "number": getattr(error, "number", signal.SIGINT), "text": str(error)}
    if isinstance(error, BrokenPipeError):
        return {"kind": "closed", "text": ""}
    if isinstance(error, InputError):
        return {"kind": "input", "text": str(error)}
    return {"kind": "failed", "text": one_line(error)}


def _as_error(report: Report, before: str, behind: str) -> BaseException:
    """A report as the exception that it was."""
    if report["kind"] == "signal":
        return Interrupted(report["number"], report["text"] or "interrupted")
    if report["kind"] == "closed":
        return BrokenPipeError()
    text = f"{before}{report['text']}{behind}"
    return InputError(text) if report["kind"] == "input" else CommandFailed(text)


def verdict(reports: dict[int, Report], dead: dict[int, str]) -> BaseException:
    """What ended a run: the first reason that a rank gave, else which rank is `dead` and how, in words."""
    kept = next((f"; stopped {report['kept']}" for report in reports.values() if report.get("kept")), "")
    reasons = sorted(rank for rank, report in reports.items() if report["kind"] != "lost")
    if reasons:
        rank = reasons[0]
        return _as_error(reports[rank], f"rank {rank}: " if rank else "", kept)
    told = [f"rank {rank} {how}" for rank, how in sorted(dead.items())]
    told = told or [f"rank {rank}: {report['text']}" for rank, report in sorted(reports.items())][:1]
    return CommandFailed("; ".join(told) + kept)


def _key(rank: int) -> str:
    return f"tinylm/ended/{rank}"


def _started_by_torchrun(processes: int, work: Work) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    group = Group(*(int(os.environ.get(name, default)) for name, default in zip(names, "0101", strict=True)))
    if group.local_rank:
        _silence()
        _ignore_signals()
    if group.size != processes:
        raise InputError(
            f"{PARAMS_FILE}: train.processes = {processes}; allowed: {group.size}, the WORLD_SIZE of torchrun"
        )
    if group.size == 1:
        work(group)
        return
    store, _, _ = next(dist.rendezvous("env://", timeout=datetime.timedelta(seconds=_patience_s())))
    try:
        with _joined(dist.PrefixStore("tinylm", store), group, os.environ["MASTER_ADDR"]):
            work(group)
    except BaseException as error:
        _ignore_signals()  # torchrun ends all others as soon as one has failed; there is a line to say yet
        report = _report(error)
        with contextlib.suppress(RuntimeError):  # the store may be gone with its host
            store.set(_key(group.rank), json.dumps(report))
        reports = {group.rank: report} | (_heard(store, group) if report["kind"] == "lost" else {})
        missing = set(range(group.size)) - set(reports)
        raise verdict(reports, dict.fromkeys(missing, "was killed, or its host is gone")) from None


def _heard(store: dist.Store, group: Group) -> dict[int, Report]:
    """What the other ranks say ended them; they have some seconds to say so."""
    reports: dict[int, Report] = {}
    end = time.monotonic() + _HEARD_S
    with contextlib.suppress(RuntimeError):
        while len(reports) < group.size - 1 and time.monotonic() < end:
            for rank in set(range(group.size)) - {group.rank, *reports}:
                if store.check([_key(rank)]):
                    reports[rank] = json.loads(store.get(_key(rank)))
            time.sleep(0.05)
    return reports


def _start_here(processes: int, work: Work) -> None:
    """Fork the ranks, wait for them, and raise what ended them if it was not their work's end."""
    listener = socket.create_server((_HERE, 0))
    port = listener.getsockname()[1]
    context = multiprocessing.get_context("fork")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    started: list[ForkProcess] = []
    presses: list[int] = []

    def pass_on(number: int, _: object) -> None:
        presses.append(number)
        if started and started[0].pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(started[0].pid, number)

    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        for rank in range(processes):
            group = Group(rank, processes, rank, processes)
            started.append(context.Process(target=_rank, args=(group, port, os.getpid(), before, work)))
            started[rank].start()
        store = dist.TCPStore(_HERE, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
        dead = _watch(started, presses)
        reports = {rank: json.loads(store.get(_key(rank))) for rank in range(processes) if store.check([_key(rank)])}
        if reports or dead:
            raise verdict(reports, dead) from None
    finally:
        for process in started:
            process.kill()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(started: list[ForkProcess], presses: list[int]) -> dict[int, str]:
    """Wait until all ranks have ended; those without a word, by rank. Past a failure the others have GRACE_S."""
    end, late = float("inf"), False
    while running := [process for process in started if process.exitcode is None]:
        wait([process.sentinel for process in running], timeout=0.5)
        if len(presses) > 1 or any(process.exitcode for process in started):
            end = min(end, time.monotonic() + GRACE_S)
        if time.monotonic() > end:
            late = True
            break
    dead = {}
    for rank, process in enumerate(started):
        if process.exitcode is None and late:
            process.kill()
            process.join()
            dead[rank] = f"did not end within {GRACE_S:.0f} s of another"
        elif process.exitcode == -signal.SIGKILL:
            dead[rank] = "was killed (signal 9; too little memory, or somebody ended it)"
        elif process.exitcode not in (0, _TOLD):
            dead[rank] = f"ended with exit code {process.exitcode}"
    return dead


def _rank(group: Group, port: int, parent: int, handlers: dict[signal.Signals, Any], work: Work) -> None:
    """The life of one rank that `_start_here` has forked."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no rank outlives its parent
    if os.getppid() != parent:
        os._exit(_TOLD)
    os.setpgid(0, 0)  # Ctrl-C comes from the parent, and once
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if not group.leads:
        _silence()
        _ignore_signals()
    store = dist.TCPStore(_HERE, port, is_master=False, timeout=datetime.timedelta(seconds=_patience_s()))
    try:
        with _joined(dist.PrefixStore("tinylm", store), group, _HERE):
            work(group)
        sys.stdout.flush()
    except BaseException as error:
        store.set(_key(group.rank), json.dumps(_report(error)))
        sys.exit(_TOLD)

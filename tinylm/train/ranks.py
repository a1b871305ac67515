"""Start and end of a run's ranks: N processes on this host, or those that torchrun has started on several hosts.

However a rank ends, the user gets one line. A rank that fails writes its reason to the run's key-value store; one that
writes none was killed. On one host a parent forks the ranks before torch has started a thread, passes signals on and
ends the ranks that are left; they die with it.
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
from tinylm.train.distributed import Group, RankLost

GRACE_S = 30.0  # for the others to save and end after a rank is gone
_REPORTS_S = 3.0  # for the reports of other hosts
_LOCALHOST = "127.0.0.1"
_REPORTED = 3  # exit code of a rank that has written its reason to the store
Work = Callable[[Group], None]
Report = dict[str, Any]


def in_ranks(processes: int, work: Work) -> None:
    """Call work(group) once in each of the run's processes; raises what ended them, unless they finished their work.

    A run of one process runs in the calling process. Under torchrun (RANK, WORLD_SIZE) this process is a rank
    already. TINYLM_TORCHRUN holds arguments of torchrun, under which this command then starts again.
    """
    arguments = os.environ.get("TINYLM_TORCHRUN")
    _patience_s()  # a mistake there ends the run before any rank starts
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _join_torchrun(processes, work)
    elif arguments:
        words = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *_words(arguments),
            *sys.orig_argv[1:],
        ]
        sys.stdout.flush()
        os.execv(sys.executable, words)
    elif processes == 1:
        work(Group())
    else:
        _fork_ranks(processes, work)


def _patience_s() -> float:
    """Seconds to wait for a rank that does not answer. Raises InputError."""
    given = os.environ.get("TINYLM_PATIENCE_S", "300")
    with contextlib.suppress(ValueError):
        if 1 <= float(given) <= 1e6:
            return float(given)
    raise InputError(f"environment: TINYLM_PATIENCE_S = {given!r}; allowed: seconds, 1 to 1000000")


def _words(arguments: str) -> list[str]:
    """The arguments in TINYLM_TORCHRUN, checked by the parser of torchrun. Raises InputError."""
    from torch.distributed.run import get_args_parser  # slow, and rarely needed

    def refuse(message: str) -> None:
        raise ValueError(message)

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[assignment, method-assign]
    try:
        words, command = shlex.split(arguments), sys.orig_argv[1:]
        script = parser.parse_args([*words, *command]).training_script
        if script != parser.parse_args(command).training_script:
            raise ValueError(f"{script!r} is no option")
        return words
    except ValueError as error:
        raise InputError(
            f"environment: TINYLM_TORCHRUN = {arguments!r}: {error}; allowed: arguments of torchrun"
        ) from None


@contextlib.contextmanager
def _joined(store: dist.Store, group: Group, address: str) -> Iterator[None]:
    """Connect the ranks. address: of rank 0's host. Tensors on CUDA devices travel by NCCL, all others by gloo."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface_to(address))
    backend = (
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    )
    patience = datetime.timedelta(seconds=_patience_s())
    try:
        dist.init_process_group(
            backend, store=store, rank=group.rank, world_size=group.size, timeout=patience
        )
    except RuntimeError as error:
        raise RankLost(str(error).strip().partition("\n")[0][:200]) from None
    yield
    group.wait()  # until rank 0 has written its last file
    dist.destroy_process_group()


def _interface_to(address: str) -> str:
    """Name of the network interface that leads to an address: gloo would guess one from the host's name."""
    import psutil

    family, kind, _, _, target = socket.getaddrinfo(address, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(target)
        source = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == source for one in addresses):
            return name
    raise InputError(
        f"MASTER_ADDR = {address!r}: no network interface leads there; set GLOO_SOCKET_IFNAME"
    )


def _silence() -> None:
    """Print nothing from now on: rank 0, or the first rank of this host, prints the same."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM: the first rank of the host handles them for all."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _report(error: BaseException) -> Report:
    """An exception as a dictionary that JSON can represent."""
    if os.environ.get("TINYLM_DEBUG") == "1":
        traceback.print_exc(file=sys.__stderr__)
    if isinstance(error, RankLost):
        return {"kind": "lost", "text": str(error), "kept": error.kept}
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return {
            "kind": "signal",
            "number": getattr(error, "number", signal.SIGINT),
            "text": str(error),
        }
    if isinstance(error, BrokenPipeError):
        return {"kind": "closed", "text": ""}
    if isinstance(error, InputError):
        return {"kind": "input", "text": str(error)}
    return {"kind": "failed", "text": one_line(error)}


def _as_error(report: Report, prefix: str, suffix: str) -> BaseException:
    """The exception that a report represents."""
    if report["kind"] == "signal":
        return Interrupted(report["number"], report["text"] or "interrupted")
    if report["kind"] == "closed":
        return BrokenPipeError()
    text = f"{prefix}{report['text']}{suffix}"
    return InputError(text) if report["kind"] == "input" else CommandFailed(text)


def verdict(reports: dict[int, Report], dead: dict[int, str]) -> BaseException:
    """What ended a run: the reason of the first rank that gave one, else which ranks are `dead` and how, in words."""
    kept = next(
        (f"; stopped {report['kept']}" for report in reports.values() if report.get("kept")), ""
    )
    reasons = sorted(rank for rank, report in reports.items() if report["kind"] != "lost")
    if reasons:
        rank = reasons[0]
        return _as_error(reports[rank], f"rank {rank}: " if rank else "", kept)
    lines = [f"rank {rank} {how}" for rank, how in sorted(dead.items())]
    lines = (
        lines or [f"rank {rank}: {report['text']}" for rank, report in sorted(reports.items())][:1]
    )
    return CommandFailed("; ".join(lines) + kept)


def _key(rank: int) -> str:
    return f"tinylm/ended/{rank}"


def _join_torchrun(processes: int, work: Work) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    group = Group(
        *(int(os.environ.get(name, default)) for name, default in zip(names, "0101", strict=True))
    )
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
        _ignore_signals()  # torchrun ends all ranks as soon as one has failed, but the error must still be printed
        report = _report(error)
        with contextlib.suppress(RuntimeError):  # the store may have gone with its host
            store.set(_key(group.rank), json.dumps(report))
        reports = {group.rank: report} | (
            _reports(store, group) if report["kind"] == "lost" else {}
        )
        missing = set(range(group.size)) - set(reports)
        raise verdict(reports, dict.fromkeys(missing, "was killed, or its host is gone")) from None


def _reports(store: dist.Store, group: Group) -> dict[int, Report]:
    """The reasons for their end that other ranks report within `_REPORTS_S`."""
    reports: dict[int, Report] = {}
    end = time.monotonic() + _REPORTS_S
    with contextlib.suppress(RuntimeError):
        while len(reports) < group.size - 1 and time.monotonic() < end:
            for rank in set(range(group.size)) - {group.rank, *reports}:
                if store.check([_key(rank)]):
                    reports[rank] = json.loads(store.get(_key(rank)))
            time.sleep(0.05)
    return reports


def _fork_ranks(processes: int, work: Work) -> None:
    """Fork the ranks, wait for them, and raise what ended them, unless they finished their work."""
    listener = socket.create_server((_LOCALHOST, 0))
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
            started.append(
                context.Process(target=_rank, args=(group, port, os.getpid(), before, work))
            )
            started[rank].start()
        store = dist.TCPStore(
            _LOCALHOST,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        dead = _watch(started, presses)
        reports = {
            rank: json.loads(store.get(_key(rank)))
            for rank in range(processes)
            if store.check([_key(rank)])
        }
        if reports or dead:
            raise verdict(reports, dead) from None
    finally:
        for process in started:
            process.kill()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(started: list[ForkProcess], presses: list[int]) -> dict[int, str]:
    """Wait until all ranks have ended, after a failure at most GRACE_S; returns how those without a reason ended."""
    end = float("inf")
    while (
        running := [process for process in started if process.exitcode is None]
    ) and time.monotonic() < end:
        wait([process.sentinel for process in running], timeout=0.5)
        if len(presses) > 1 or any(process.exitcode for process in started):
            end = min(end, time.monotonic() + GRACE_S)
    dead = {}
    for rank, process in enumerate(started):
        if process.exitcode is None:
            process.kill()
            process.join()
            dead[rank] = f"did not end within {GRACE_S:.0f} s of another"
        elif process.exitcode == -signal.SIGKILL:
            dead[rank] = "was killed (signal 9; too little memory, or somebody ended it)"
        elif process.exitcode not in (0, _REPORTED):
            dead[rank] = f"ended with exit code {process.exitcode}"
    return dead


def _rank(
    group: Group, port: int, parent: int, handlers: dict[signal.Signals, Any], work: Work
) -> None:
    """One rank that `_fork_ranks` has forked, from its start to its exit."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no rank outlives its parent
    if os.getppid() != parent:
        os._exit(_REPORTED)
    os.setpgid(0, 0)  # Ctrl-C comes from the parent, and only once
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if not group.is_rank0:
        _silence()
        _ignore_signals()
    store = dist.TCPStore(
        _LOCALHOST, port, is_master=False, timeout=datetime.timedelta(seconds=_patience_s())
    )
    try:
        with _joined(dist.PrefixStore("tinylm", store), group, _LOCALHOST):
            work(group)
        sys.stdout.flush()
    except BaseException as error:
        store.set(_key(group.rank), json.dumps(_report(error)))
        sys.exit(_REPORTED)

"""`python -m MODULE` and `python -c CODE` in a fork of one process that has already imported what is slow to import.

`python -ISE forks.py -m MODULE ...` behaves as that command: it hands its streams, folder, environment and limits to
the server at $FORKS, passes signals on, and ends as the fork ends. `python forks.py` is the server; its input ends it.
"""

import atexit
import contextlib
import functools
import importlib
import io
import json
import os
import random
import resource
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any, NoReturn

SLOW = (
    "torch",
    "pandas",
    "matplotlib.figure",
    "pyarrow",
    "sacrebleu",
    "tokenizers",
    "dvc.cli",
    "dvc.repo.reproduce",
)
LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
# Names of variables that Python or a library heeds as it starts: then the command is really started.
AT_START = ("PYTHON", "COVERAGE", "ATEN_", "MKL_", "LC_ALL", "LANG")
OURS = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "LANG",
)  # those that a fork heeds, and those that do not matter
PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@functools.cache
def server() -> str:
    """The address of a server that ends with this process."""
    folder = tempfile.mkdtemp()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FORKS": f"{folder}/forks"}
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        running = subprocess.Popen(
            [sys.executable, __file__],
            cwd="/",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=nowhere,
        )
    while not os.path.exists(environment["FORKS"]):
        assert running.poll() is None
        time.sleep(0.01)

    def end() -> None:
        running.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return environment["FORKS"]


def command(*words: str) -> list[str]:
    """`python WORDS`, which start with -m, -c or -u -m, through the server that $FORKS names."""
    return [sys.executable, "-ISE", __file__, *words]


def _client(words: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    own = [name for name in os.environ if name.startswith(AT_START) and name not in OURS]
    if own or os.environ.get("OMP_NUM_THREADS") != "1" or "FORKS" not in os.environ:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        os.execv(sys.executable, [sys.executable, *words])
    streams = [number for number in range(3) if _is_open(number)]
    limits = [(which, resource.getrlimit(which)) for which in LIMITS]
    asked = json.dumps([words, os.getcwd(), dict(os.environ), streams, limits]).encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ["FORKS"])
        socket.send_fds(line, [len(asked).to_bytes(4, "big")], streams or [line.fileno()])
        line.sendall(asked)
        child = int.from_bytes(line.recv(4), "big")
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: _pass_on(child, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        code = int.from_bytes(line.recv(4), "big", signed=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _pass_on(child: int, number: int) -> None:
    with contextlib.suppress(
        ProcessLookupError
    ):  # the command has just ended, its code is on the way
        os.kill(child, number)


def _is_open(number: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


def _serve(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(64)  # who comes before all is imported waits
        for name in SLOW:
            importlib.import_module(name)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while 0 not in select.select([door, 0], [], [])[0]:
            line = door.accept()[0]
            if os.fork() == 0:
                door.close()
                _attend(line)
            line.close()


def _attend(line: socket.socket) -> NoReturn:
    """In a fork for each client: start its command in another, and kill it if the client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, given, _, _ = socket.recv_fds(line, 4, 3)
    text = b""
    while len(text) < int.from_bytes(head, "big"):
        text += line.recv(1 << 16)
    child = os.fork()
    if child == 0:
        line.close()
        _work(given, *json.loads(text))
    for number in given:
        os.close(number)
    line.sendall(child.to_bytes(4, "big"))
    ended = os.pidfd_open(child)
    if ended not in select.select([line, ended], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        line.sendall(code.to_bytes(4, "big", signed=True))
    os._exit(0)


def _work(
    given: list[int],
    words: list[str],
    folder: str,
    environment: dict,
    streams: list[int],
    limits: list,
) -> None:
    """Become the command."""
    os.setsid()
    for number in range(3):
        os.dup2(given[streams.index(number)], number) if number in streams else os.close(number)
    for number in given:
        os.close(number)
    for which, limit in limits:
        resource.setrlimit(which, limit)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    time.tzset()
    random.seed()
    if words[0] == "-u":
        environment |= {"PYTHONUNBUFFERED": "1"}
        words = words[1:]
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    sys.stdin, sys.stdout, sys.stderr = (
        _stream(n, unbuffered) if n in streams else None for n in range(3)
    )  # type: ignore[assignment]
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.path[0] = folder
    sys.argv[:] = words
    what = sys.argv.pop(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = 0
    try:
        if sys.argv[0] == "-m":
            runpy._run_module_as_main(what)  # type: ignore[attr-defined]
        else:
            main = sys.modules["__main__"].__dict__
            del main["__file__"]
            exec(compile(what, "<string>", "exec"), main)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if not isinstance(stop.code, int | None):
            print(stop.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:  # an interpreter that is about to stop raises nothing any more, a fork of this one would
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        code = 120
    os._exit(code)


def _stream(number: int, unbuffered: bool) -> IO[Any]:
    if number == 0:
        return open(0, encoding="utf-8", closefd=False)
    raw = io.FileIO(number, "w", closefd=False)
    errors = "strict" if number == 1 else "backslashreplace"
    if unbuffered:
        return io.TextIOWrapper(raw, "utf-8", errors, write_through=True)  # type: ignore[arg-type]
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=number == 2)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(_client(sys.argv[1:]))
    _serve(os.environ["FORKS"])

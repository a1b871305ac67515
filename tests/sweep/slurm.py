"""A sweep on a real SLURM of two hosts: python -m tests.sweep.slurm

The hosts are two network namespaces joined by a veth pair, each with a name and a slurmd of its own; slurmctld and
munged run on the first. While the sweep runs, a job is preempted by one of a higher partition, and the second host is
lost with all that runs there; both runs must be queued again, go on from their snapshots and end with the bytes of a
run by `dvc exp run`. Needs root, Debian's packages slurm-wlm and munge, `ip` and the package submitit.
--nodes: also one run of `train.processes: 2` under srun and torchrun, a process on each host. --limit: only a run that
reaches its time limit (three minutes). --cut: only a host whose network is cut. --in FOLDER COMMAND ...: only this
command, in a folder, on the first host.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tests.support.clone import Clone
from tests.sweep import rig

ADDRESSES = ("10.78.0.1", "10.78.0.2")
SPACES = ("tinylm-n1", "tinylm-n2")
CONFIG = """\
ClusterName=tinylm
SlurmctldHost=n1({first})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
KillWait=5
ReturnToService=2
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n1 NodeAddr={first} CPUs={cpus} RealMemory=2000 State=UNKNOWN
NodeName=n2 NodeAddr={second} CPUs={cpus} RealMemory=2000 State=UNKNOWN
PartitionName=low Nodes=n1,n2 Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=5
PartitionName=high Nodes=n1,n2 MaxTime=60 State=UP PriorityTier=2 PreemptMode=off
"""


def missing() -> str:
    """What this machine lacks for a SLURM of two hosts, in words; "" if nothing."""
    lacking = [
        tool
        for tool in ("slurmctld", "slurmd", "munged", "sbatch", "srun", "ip")
        if not _found(tool)
    ]
    if os.geteuid() != 0:
        lacking.append("root")
    with contextlib.suppress(ImportError):
        import submitit  # noqa: F401

        return ", ".join(lacking)
    return ", ".join([*lacking, "submitit"])


def _found(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def wait_for(what: str, ready: Callable[[], object], within_s: float = 120.0) -> None:
    end = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < end, f"not within {within_s:.0f} s: {what}"
        time.sleep(0.2)


class Cluster:
    """slurmctld on the first host, a slurmd on each; all end with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, folder / "slurm.conf"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
        text = CONFIG.format(folder=folder, first=ADDRESSES[0], second=ADDRESSES[1], cpus=1)
        self.config.write_text(text)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # which nothing here uses
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)

    def inside(self, host: int, *words: str) -> list[str]:
        """Words that run a command on a host."""
        name = f"n{host + 1}"
        return [
            "ip",
            "netns",
            "exec",
            SPACES[host],
            "unshare",
            "-u",
            "sh",
            "-c",
            f'hostname {name} && exec "$@"',
            "sh",
            *words,
        ]

    def daemon(self, name: str, host: int, *words: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self.daemons[name] = subprocess.Popen(
                self.inside(host, *words), env={**os.environ, "SLURM_CONF": str(self.config)}, stdout=out, stderr=out
            )  # fmt: skip

    def slurmd(self, host: int) -> None:
        name = f"n{host + 1}"
        self.daemon(
            f"slurmd-{name}", host, str(_found("slurmd")), "-D", "-N", name, "-f", str(self.config)
        )

    def ask(self, *words: str) -> str:
        """What a command of SLURM prints, on the first host."""
        done = subprocess.run(
            self.inside(0, *words), env={**os.environ, "SLURM_CONF": str(self.config)}, capture_output=True, text=True
        )  # fmt: skip
        return done.stdout

    def lose(self, host: int) -> int:
        """Kill everything that runs on a host; how many processes that were."""
        listed = subprocess.run(
            ["ip", "netns", "pids", SPACES[host]], capture_output=True, text=True
        ).stdout.split()
        for pid in map(int, listed):
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        return len(listed)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Two hosts with a SLURM; nothing of them is left afterwards."""
    made = Cluster(folder)
    try:
        for words in (
            *(["ip", "netns", "add", name] for name in SPACES),
            ["ip", "link", "add", "left", "netns", SPACES[0], "type", "veth",
             "peer", "name", "right", "netns", SPACES[1]],
            ["ip", "-n", SPACES[0], "address", "add", f"{ADDRESSES[0]}/24", "dev", "left"],
            ["ip", "-n", SPACES[1], "address", "add", f"{ADDRESSES[1]}/24", "dev", "right"],
            *(["ip", "-n", name, "link", "set", device, "up"]
              for name, end in zip(SPACES, ("left", "right")) for device in ("lo", end)),
        ):  # fmt: skip
            subprocess.run(words, check=True)
        key, socket = folder / "munge.key", folder / "munge.socket"
        made.daemon("munged", 0, str(_found("munged")), "--foreground", "--force", "--key-file", str(key), "--socket",
                    str(socket), "--pid-file", str(folder / "munged.pid"), "--log-file", str(folder / "munged.log"),
                    "--seed-file", str(folder / "munged.seed"))  # fmt: skip
        wait_for("munged", socket.exists)
        made.daemon("slurmctld", 0, str(_found("slurmctld")), "-D", "-f", str(made.config))
        for host in (0, 1):
            made.slurmd(host)
        wait_for(
            "two idle hosts",
            lambda: made.ask("sinfo", "-h", "-p", "low", "-t", "idle", "-o", "%D").strip() == "2",
        )
        yield made
    except AssertionError:
        for log in sorted(folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        for host in (1, 0):
            made.lose(host)
        for name in SPACES:
            subprocess.run(["ip", "netns", "delete", name])
        for process in made.daemons.values():
            process.wait()


def running(made: Cluster, host: str = "") -> dict[str, str]:
    """{job: its host} of the running jobs of the sweep."""
    rows = [
        line.split()
        for line in made.ask(
            "squeue", "-h", "-r", "-p", "low", "-t", "RUNNING", "-o", "%i %N"
        ).splitlines()
    ]
    return {job: where for job, where in rows if host in where}


def with_snapshot(clone: Clone, made: Cluster, host: str) -> str:
    """A running job on a host in the middle of its training; "" if there is none."""
    jobs = json.loads((clone.path / "runs/sweeps/s/slurm.json").read_text())
    for run, job in jobs.items():
        for snapshot in clone.path.glob(f"runs/sweeps/s/{int(run):04d}/runs/train/*/[0-9]*.json"):
            if not (snapshot.parent / "done.json").exists() and job in running(made, host):
                return str(job)
    return ""


def restarts(made: Cluster, job: str) -> int:
    return int(
        (re.findall(r"Restarts=(\d+)", made.ask("scontrol", "show", "job", job)) or ["0"])[0]
    )


def resumed(clone: Clone) -> int:
    """Runs whose log says that they went on from a snapshot."""
    return sum(
        "resumed after update" in log.read_text()
        for log in clone.path.glob("runs/sweeps/s/*/log.txt")
    )


def troubled_sweep(folder: Path, made: Cluster, seeds: int, tokens: int) -> None:
    """A sweep in which a job is preempted and a host is lost."""
    clone, serial = (rig.lab(folder / name, train__tokens=tokens) for name in ("clone", "serial"))
    log, listed = folder / "sweep.log", ",".join(map(str, range(1, seeds + 1)))
    process = _begun(
        clone, made, log, "--seeds", listed, "--workers", "2", "--slurm", "time=30", "partition=low"
    )
    try:
        note = clone.path / "runs/sweeps/s/slurm.json"
        wait_for("the jobs are queued", lambda: note.exists() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        wait_for("a snapshot on n1", lambda: with_snapshot(clone, made, "n1"))
        first = with_snapshot(clone, made, "n1")
        made.ask("sbatch", "-p", "high", "-w", "n1", "-o", "/dev/null", "--wrap", "sleep 3")
        wait_for(f"job {first} is preempted", lambda: restarts(made, first))
        print(f"job {first} was preempted on n1 and queued again", flush=True)
        wait_for("a snapshot on n2", lambda: with_snapshot(clone, made, "n2"))
        second = with_snapshot(clone, made, "n2")
        print(f"n2 is lost with {made.lose(1)} processes and job {second}", flush=True)
        made.slurmd(1)
        code = process.wait(timeout=900)
        assert code == 0, log.read_text()
        assert restarts(made, second), f"job {second} was not queued again"
    finally:
        process.kill()
    assert resumed(clone) >= 2, "no run went on from its snapshot"
    recorded = rig.locks(clone)
    assert sorted(recorded) == [f"s-{n:04d}" for n in range(1, seeds + 1)]
    for n in range(1, seeds + 1):
        assert recorded[f"s-{n:04d}"] == rig.serially(serial, {"train.seed": n}), (
            f"run {n}: other bytes"
        )
    print(log.read_text())
    print(
        f"{seeds} runs on two hosts, one preempted, one host lost: all done, {resumed(clone)} went on from a snapshot, "
        "all with the hashes of runs by dvc exp run"
    )


def _begun(clone: Clone, made: Cluster, log: Path, *words: str) -> "subprocess.Popen[bytes]":
    """`tinylm sweep WORDS` on the first host."""
    environment = clone.environment(
        SLURM_CONF=str(made.config), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    command = made.inside(
        0, sys.executable, "-m", "tinylm.cli", "sweep", "--on", "slurm", "--name", "s", *words
    )
    with open(log, "wb") as out:
        return subprocess.Popen(command, cwd=clone.path, env=environment, stdout=out, stderr=out)


def cut_off_sweep(folder: Path, made: Cluster, tokens: int) -> None:
    """The second host's network is cut in the middle of a run and comes back: the run goes on there or elsewhere."""
    clone, serial = (rig.lab(folder / name, train__tokens=tokens) for name in ("clone", "serial"))
    log = folder / "sweep.log"
    process = _begun(
        clone, made, log, "--seeds", "2,3", "--workers", "2", "--slurm", "time=30", "partition=low"
    )
    try:
        wait_for(
            "the jobs are queued",
            lambda: (clone.path / "runs/sweeps/s/slurm.json").exists() or process.poll(),
        )
        wait_for("a snapshot on n2", lambda: with_snapshot(clone, made, "n2"))
        job = with_snapshot(clone, made, "n2")
        subprocess.run(["ip", "-n", SPACES[1], "link", "set", "right", "down"], check=True)
        wait_for(f"job {job} is queued again", lambda: restarts(made, job), 300)
        print(f"job {job} was queued again, {len(running(made))} jobs are running", flush=True)
        time.sleep(5)
        subprocess.run(["ip", "-n", SPACES[1], "link", "set", "right", "up"], check=True)
        code = process.wait(timeout=900)
        assert code == 0, log.read_text()
    finally:
        process.kill()
    recorded = rig.locks(clone)
    assert sorted(recorded) == ["s-0001", "s-0002"]
    for n in (1, 2):
        assert recorded[f"s-{n:04d}"] == rig.serially(serial, {"train.seed": n + 1}), (
            f"run {n}: other bytes"
        )
    print(log.read_text())
    print(
        f"the network of n2 was cut while job {job} ran there: all runs have the hashes of runs by dvc exp run"
    )


def limited_sweep(folder: Path, made: Cluster, tokens: int) -> None:
    """A run that takes longer than SLURM gives it: two minutes, and submitit's signal comes 90 s before their end."""
    clone, serial = (rig.lab(folder / name, train__tokens=tokens) for name in ("clone", "serial"))
    log = folder / "sweep.log"
    process = _begun(
        clone, made, log, "--seeds", "2", "--workers", "1", "--slurm", "time=2", "partition=low"
    )
    try:
        code = process.wait(timeout=1200)
    finally:
        process.kill()
    assert code == 0, log.read_text()
    job = json.loads((clone.path / "runs/sweeps/s/slurm.json").read_text())["1"]
    times = restarts(made, job)
    assert times, "the job was not queued again"
    assert resumed(clone) == 1
    assert rig.locks(clone)["s-0001"] == rig.serially(serial, {"train.seed": 2})
    print(log.read_text())
    print(
        f"job {job} reached its time limit and was queued again {times} times: the hashes of a run by dvc exp run"
    )


def several_nodes(folder: Path, made: Cluster) -> None:
    """`train.processes: 2` under srun and torchrun, one process on each host."""
    clone = rig.lab(folder / "nodes", train__processes=2)
    clone.dvc("repro", "vocab")
    launch = (
        f"exec {sys.executable} -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --node-rank $SLURM_NODEID "
        f"--master-addr {ADDRESSES[0]} --master-port 29512 -m stages.train"
    )
    done = subprocess.run(
        made.inside(0, "srun", "-N", "2", "-n", "2", "-p", "high", "sh", "-c", launch),
        cwd=clone.path, env=clone.environment(SLURM_CONF=str(made.config)), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    timing = clone.json("metrics/train_time.json")
    assert timing["conditions"]["processes"] == 2
    print(
        f"srun and torchrun: 2 processes on 2 hosts, {timing['tokens_per_s']:,.0f} tokens/s together"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=300000, help="of a run")
    parser.add_argument("--nodes", action="store_true", help="also train.processes: 2 on two hosts")
    parser.add_argument(
        "--limit", action="store_true", help="only a run that reaches its time limit"
    )
    parser.add_argument("--cut", action="store_true", help="only a host whose network is cut")
    parser.add_argument(
        "--in", dest="folder", metavar="FOLDER", help="only the command that follows, there"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts end too
    if lacking := missing():
        sys.exit(f"this machine lacks {lacking}")
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as made:
        if arguments.folder:
            words = made.inside(0, *arguments.command)
            environment = {**os.environ, "SLURM_CONF": str(made.config)}
            sys.exit(subprocess.run(words, cwd=arguments.folder, env=environment).returncode)
        if arguments.limit:
            return limited_sweep(Path(folder), made, 3 * arguments.tokens)
        if arguments.cut:
            return cut_off_sweep(Path(folder), made, arguments.tokens)
        troubled_sweep(Path(folder), made, arguments.seeds, arguments.tokens)
        if arguments.nodes:
            several_nodes(Path(folder), made)


if __name__ == "__main__":
    main()

"""Machines that are namespaces: of network, mounts, processes, names and clocks; the kernel alone is one.

They are cabled to a bridge of this process's network namespace, in which the scheduler and runs are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import trustme

from foundation.checkout import source_folders
from switch_harness.waiting import wait_for
from tests.harness.warm_processes import WarmProcess, warm_process

ROOT = Path(__file__).parents[3]
HEAD = "192.0.2.254"
_PREFIX_LENGTH = 24
_ROLES = ("scheduler", "worker", "client")
_PATIENCE_S = 300.0  # for a phase or a whole run
PLAINTEXT = "[wiring]\nplaintext = true"
_SET_UP = """
set -eu
hostname "$1"
mount -t tmpfs none /run
mount -t tmpfs none /var/tmp
for folder in $2; do mount -t tmpfs none "$folder"; done
shift 2
exec "$@"
"""
# Arguments: a root, two folders that are at the same paths in it, and the command.
_IN_ROOT = """
set -eu
root=$1
shift
for folder in "$1" "$2"; do
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
done
shift 2
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/run"
exec chroot "$root" "$@"
"""
_ENVIRONMENT = {
    "DASK_LOGGING__DISTRIBUTED": "info",
    # Idle workers wake less often (README).
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "PYTHONWARNINGS": "ignore",
}
SMALL: dict[str, object] = {
    "workers": 1, "servers": 1, "top_k": 200, "rounds": 1, "loads": [0.5], "block_ms": 200, "discard_ms": 50,
    "block_steps": 10, "trace_steps": 400, "profile_lanes": 10_000, "calibration_s": 0.2, "empty_rpcs": 5,
    "arms": ["baseline", "offload"], "simulate_dedicated_switch": False, "budget_s": 1.0,
}  # fmt: skip
"""Settings of a run that takes a few seconds."""
SMALL_WORKLOAD = {"parameters": 20_000, "hot_parameters": 500, "keys_per_step": 200}


@dataclass
class NamespacedMachine:
    """A machine: `init` is its first process, with which all others end."""

    name: str
    address: str
    init: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """End the machine as a power failure does."""
        self.init.kill()
        self.init.wait()

    def interfaces(self) -> set[str]:
        """Return the names of the interfaces of the machine, those of its namespaces excepted."""
        found = json.loads(_output("ip", "-netns", self.name, "-json", "link"))
        return {link["ifname"] for link in found}

    def namespaces(self) -> set[str]:
        return set(filter(None, self.run("ls", "/run/netns").split()))

    def processes(self) -> set[str]:
        """Return the modules of Python that run on the machine."""
        lines = self.run("ps", "-eo", "args").splitlines()
        return {line.split(" -m ")[1].split()[0] for line in lines if " -m " in line}

    def run(self, *command: str) -> str:
        return subprocess.run(self.command(*command), capture_output=True, text=True).stdout

    def command(self, *command: str) -> list[str]:
        """Return a command line that runs a command on the machine."""
        return ["nsenter", "-t", str(self._first_child()), "-m", "-p", "-n", "--", *command]

    def cut_off(self) -> None:
        _ip("link", "set", f"{self.name}-cable", "down")

    def connect(self) -> None:
        _ip("link", "set", f"{self.name}-cable", "up")

    def _first_child(self) -> int:
        children = Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        return int(children[0])


class OtherRoot(NamedTuple):
    """The root folder of a machine that is not this one's, with Python and what dask's worker needs."""

    folder: Path
    python: str  # path in it
    packages: str  # folder in it


class Cable(NamedTuple):
    """A cable between two machines besides those to the bridge."""

    machine: str
    interface: str
    other_machine: str
    other_interface: str


@dataclass
class MachinesRun:
    """A run of `hotline run MACHINES=`, in a process of its own."""

    process: subprocess.Popen[bytes] | WarmProcess
    runs: Path
    log: Path

    @property
    def folder(self) -> Path:
        return (self.runs / "latest").resolve()

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait(self) -> int:
        return self.process.wait(timeout=_PATIENCE_S)

    def wait_for_phase(self, name: str) -> None:
        """Wait until a phase of the run has ended; its time is printed then."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.process.poll() is None and f"{name}: " not in self.output:
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)
        assert self.process.poll() is None, self.output


@dataclass
class NamespacedCluster:
    folder: Path
    scheduler: str
    scheduler_process: subprocess.Popen[bytes]
    environment: Mapping[str, str]
    machines: dict[str, NamespacedMachine] = field(default_factory=dict)

    def config(self, *, tables: str = "", **settings: object) -> Path:
        """Write the configuration of a small run on these machines, with other settings and tables.

        A setting that is None is left out.
        """
        runs = self.folder / "runs"
        values = {**SMALL, "runs": str(runs), "machines": self.scheduler, **settings}
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None]
        lines += ["[workload]", *(f"{name} = {value}" for name, value in SMALL_WORKLOAD.items()), tables]
        file = self.folder / "run.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    @contextmanager
    def run(self, *variables: str, tables: str = PLAINTEXT, **settings: object) -> Iterator[MachinesRun]:
        config, log = self.config(tables=tables, **settings), self.folder / "run.log"
        command = [sys.executable, "-m", "hotline.cli", "run", f"CONFIG={config}", *variables]
        with _process(command, log, self.environment) as process:
            yield MachinesRun(process, self.folder / "runs", log)

    @contextmanager
    def warm_run(self, *, tables: str = PLAINTEXT, **settings: object) -> Iterator[MachinesRun]:
        """Start a run as `run` does, but without the imports of a new process."""
        config, log = self.config(tables=tables, **settings), self.folder / "run.log"
        with log.open("w") as output:
            process = warm_process(
                "hotline.cli", "run", f"CONFIG={config}",
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, variables=self.environment,
            )  # fmt: skip
        try:
            yield MachinesRun(process, self.folder / "runs", log)
        finally:
            process.kill()
            process.wait()

    def remains(self) -> dict[str, set[str]]:
        """Return what runs have left: processes, interfaces and namespaces of each machine that is up."""
        found = {}
        for machine in self.machines.values():
            if machine.init.poll() is None:
                modules = {each for each in machine.processes() if not each.startswith("distributed.")}
                left = modules | machine.namespaces() | (machine.interfaces() - {"eth0", "lo"})
                if left:
                    found[machine.name] = left
        return found


def make_certificates(folder: Path) -> dict[str, str]:
    """Write an authority and a certificate of it; return dask's settings that use it for all roles."""
    authority = trustme.CA()
    names = (HEAD, *(f"192.0.2.{number}" for number in range(1, 10)))
    pair, trusted = folder / "pair.pem", folder / "authority.pem"
    authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(str(pair))
    authority.cert_pem.write_to_path(str(trusted))
    prefix = "distributed.comm.tls"
    return {
        f"{prefix}.ca-file": str(trusted),
        **{f"{prefix}.{role}.{part}": str(pair) for role in _ROLES for part in ("cert", "key")},
    }


def environment_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that give dask these settings."""
    names = {name: name.upper().replace(".", "__").replace("-", "_") for name in settings}
    return {f"DASK_{names[name]}": value for name, value in settings.items()}


@contextmanager
def cluster(
    folder: Path,
    resources: Mapping[str, str],
    unshared: Sequence[Path] = (),
    cpus: Mapping[str, str] | None = None,
    cables: Iterable[Cable] = (),
    tls: Mapping[str, str] | None = None,
    roots: Mapping[str, OtherRoot] = {},
) -> Iterator[NamespacedCluster]:
    """Start a scheduler, and a machine with a worker of dask for each name in `resources`.

    The machines do not see the folders `unshared` of this process, but empty ones. `tls` is dask's
    configuration of certificates (`make_certificates`), without which nothing is encrypted. Machines in
    `roots` have another root, with this checkout and `folder`.
    """
    environment = {**os.environ, **_ENVIRONMENT, **environment_of(tls or {})}
    with ExitStack() as stack:
        _ip("link", "add", "bridge", "type", "bridge")
        stack.callback(_ip, "link", "delete", "bridge")
        _ip("link", "set", "bridge", "up")
        _ip("address", "add", f"{HEAD}/{_PREFIX_LENGTH}", "dev", "bridge")
        scheduler, process = _start_scheduler(folder, environment, "tls" if tls else "tcp", stack)
        found = NamespacedCluster(folder, scheduler, process, environment)
        for number, (name, offered) in enumerate(resources.items(), start=1):
            root = roots.get(name)
            command = [
                *(["taskset", "--cpu-list", cpus[name]] if cpus else []),
                *([sys.executable] if root is None else _python_in(root, folder)),
                "-m", "distributed.cli.dask_worker", scheduler, "--no-dashboard",
                "--resources", offered, "--nthreads", "1", "--local-directory", str(folder / f"dask-{name}"),
                "--host", f"192.0.2.{number}",
            ]  # fmt: skip
            machine = _start_machine(name, number, folder, unshared, command, environment, stack)
            found.machines[name] = machine
        for cable in cables:
            _ip(
                "link", "add", cable.interface, "netns", cable.machine,
                "type", "veth", "peer", "name", cable.other_interface, "netns", cable.other_machine,
            )  # fmt: skip
            _ip("-netns", cable.machine, "link", "set", cable.interface, "up")
            _ip("-netns", cable.other_machine, "link", "set", cable.other_interface, "up")
        wait_for(lambda: _count_workers(folder) == len(resources))
        yield found


def _python_in(root: OtherRoot, folder: Path) -> list[str]:
    path = ":".join([*map(str, source_folders()), root.packages])
    environment = [f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    enter = ["sh", "-c", _IN_ROOT, "sh", str(root.folder), str(ROOT), str(folder)]
    return [*enter, "env", *environment, root.python]


def _start_scheduler(
    folder: Path, environment: Mapping[str, str], protocol: str, stack: ExitStack
) -> tuple[str, subprocess.Popen[bytes]]:
    file = folder / "scheduler.json"
    command = [
        sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--host", HEAD,
        "--port", "0", "--scheduler-file", str(file), "--protocol", protocol,
    ]  # fmt: skip
    process = stack.enter_context(_process(command, folder / "scheduler.log", environment))
    wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
    address: str = json.loads(file.read_text())["address"]
    return address, process


def _start_machine(
    name: str,
    number: int,
    folder: Path,
    unshared: Sequence[Path],
    command: Sequence[str],
    environment: Mapping[str, str],
    stack: ExitStack,
) -> NamespacedMachine:
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "delete", name)
    _ip("link", "add", f"{name}-cable", "type", "veth", "peer", "name", "eth0", "netns", name)
    # A connection that the other end has not closed keeps a namespace, and so the cable, for minutes.
    stack.callback(subprocess.run, ["ip", "link", "delete", f"{name}-cable"], capture_output=True)
    _ip("link", "set", f"{name}-cable", "master", "bridge", "up")
    address = f"192.0.2.{number}"
    _ip("-netns", name, "address", "add", f"{address}/{_PREFIX_LENGTH}", "dev", "eth0")
    for interface in ("lo", "eth0"):
        _ip("-netns", name, "link", "set", interface, "up")
    in_namespaces = [
        "ip", "netns", "exec", name,
        "unshare", "--mount", "--pid", "--uts", "--time", "--monotonic", str(1_000 * number), "--fork",
        "--kill-child", "--mount-proc", "sh", "-c", _SET_UP, "sh", name, " ".join(map(str, unshared)),
        *command,
    ]  # fmt: skip
    log = folder / f"{name}.log"
    return NamespacedMachine(
        name, address, stack.enter_context(_process(in_namespaces, log, environment)), log
    )


@contextmanager
def _process(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT,
            env=dict(environment), start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _count_workers(folder: Path) -> int:
    return sum("Registered to:" in log.read_text() for log in folder.glob("*.log"))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

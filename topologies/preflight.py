"""Check the requirements of a run, and for conflicts with it, before anything is changed."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from experiment.design_parts import hosts_of
from experiment.errors import PreflightError
from experiment.requirements import RunKind, check_design, lacks_anything
from experiment.run_config import Config
from foundation.errors import DataError
from foundation.logs.access.format_detection import open_log
from foundation.logs.access.log_files import expand
from hosts.compiled_agents import absence_message as agents_absence_message
from hosts.compiled_agents import compiled_agents
from nativekit.installed import HAS_NUMBA, absence_message
from softswitch.errors import Bmv2NotFound
from softswitch.processes import find_bmv2
from topologies.run_lock import interface_exists
from topologies.script_cluster import find_script_cluster

log = logging.getLogger(__name__)

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}  # bits (linux/capability.h)
_PROGRAMS = {
    "mnexec": "mininet",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "taskset": "util-linux",
    "setpriv": "util-linux",
}
_INSTALL_HINT = "tools/scripts/setup installs it"


def check(config: Config, kind: RunKind | None = None) -> None:
    """Raise `PreflightError` or `DesignError` for what a run lacks; `kind` is by default that of `config`."""
    kind = kind or (RunKind.SCRIPT if config.script else RunKind.REAL)
    _check_codec(config)
    check_after_death(config, kind)
    if kind is RunKind.UP and config.has_hot_sets_at_several_switches:
        raise PreflightError(
            '`hotline up` and hot sets at several switches: expected hot_sets "spine" and spines 1'
        )
    check_design(config.design, kind, hosts_of(config))
    if kind is RunKind.REAL and config.simulate_dedicated_switch and compiled_agents():
        _report_missing_simulation(config)
    _check_privileges()
    _check_programs(config)
    _check_mininet()
    _check_target(config)
    _check_cpus(config)
    check_script(config)
    check_inputs(config)


def check_after_death(config: Config, kind: RunKind) -> None:
    """Raise `PreflightError` if such a run ends with a worker's death, whatever `after_death` says."""
    if config.after_death == "end" or kind is RunKind.UP:
        return
    refused = f'after_death = "{config.after_death}": expected "end" in'
    if kind is RunKind.SCRIPT:
        raise PreflightError(f"{refused} a run with SCRIPT, whose arms are compared step by step")
    if config.machines is not None:
        raise PreflightError(f"{refused} a run on several machines; one on this machine takes all three")


def check_inputs(config: Config) -> None:
    """Raise `PreflightError` for data that cannot be read or a folder that cannot be written."""
    _check_data(config)
    _check_runs(config)


def _report_missing_simulation(config: Config) -> None:
    if reason := lacks_anything(config.design, RunKind.SIMULATED):
        log.info("no dedicated switch will be simulated after the run: %s", reason)


def check_conflicts(config: Config) -> None:
    existing_interfaces = [name for name in config.switch_interfaces if interface_exists(name)]
    if existing_interfaces:
        raise PreflightError(
            f"interface {existing_interfaces[0]} exists and does not belong to a Hotline run: another "
            "Mininet is running, or a killed one has left it; `sudo mn -c` removes it"
        )
    for port in config.p4runtime_ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise PreflightError(
                    f"TCP port {port} of 127.0.0.1 is taken ({error.strerror}): "
                    "stop the process that uses it, or set p4runtime_port in CONFIG"
                ) from None


def _own_status() -> str:
    return Path("/proc/self/status").read_text()


def _check_codec(config: Config) -> None:
    """Raise `PreflightError` if compiled agents are missing; log what a run without them does not do."""
    if compiled_agents() is not None:
        return
    if config.codec != "scapy":
        raise PreflightError(
            f"{agents_absence_message(f'CODEC={config.codec}')}; CODEC=scapy has agents in plain Python"
        )
    log.info(
        "the package of compiled agents is not installed: the agents are those of Scapy, which no compiled "
        "ones are measured beside, no fork server starts them, and no dedicated switch is simulated after "
        "the run"
    )


def _check_privileges() -> None:
    if os.geteuid() != 0:
        raise PreflightError(
            "network namespaces need root: put `sudo` before the command; `make run-topo` asks for it itself"
        )
    effective_capabilities = next(
        line for line in _own_status().splitlines() if line.startswith("CapEff:")
    ).split()[1]
    for name, bit in _CAPABILITIES.items():
        if not int(effective_capabilities, 16) >> bit & 1:
            raise PreflightError(
                f"root without {name}: a container must be started with it (or --privileged)"
            )


def _check_programs(config: Config) -> None:
    programs = _PROGRAMS | ({"tcpdump": "tcpdump"} if config.pcap else {})
    programs |= {"tc": "iproute2"} if config.cables_mbit else {}
    for program, package in programs.items():
        if shutil.which(program) is None:
            raise PreflightError(f"{program} is not on PATH (package {package}); {_INSTALL_HINT}")


def _check_mininet() -> None:
    try:
        importlib.import_module("topologies.mininet_api")
    except ModuleNotFoundError as error:
        if error.name == "distutils":
            raise PreflightError(
                f"Mininet needs distutils, which Python {sys.version_info.major}.{sys.version_info.minor} "
                "no longer has: setuptools must be in the same environment; tools/scripts/setup puts it there"
            ) from None
        raise PreflightError(
            f"this Python ({sys.executable}) does not find Mininet: expected the distribution's "
            f"Python, in an environment with --system-site-packages; {_INSTALL_HINT}"
        ) from None


def _check_target(config: Config) -> None:
    if config.target == "bmv2":
        try:
            find_bmv2()
        except Bmv2NotFound as error:
            raise PreflightError(
                f"TARGET=bmv2: {error}; Vagrantfile makes a machine with it. {_instead_of_bmv2()}"
            ) from None
    elif not HAS_NUMBA:
        raise PreflightError(f"TARGET={config.target}: {absence_message('softswitch')}; TARGET=bmv2 does not")


def _instead_of_bmv2() -> str:
    if not HAS_NUMBA:
        return f"softswitch runs the same program, and {absence_message('it')}"
    return "Without it, leave TARGET out: softswitch runs the same program, and everything else runs on it"


def _check_cpus(config: Config) -> None:
    usable_cpus = os.sched_getaffinity(0)
    for name, cpu in config.placement.model_dump().items():
        if isinstance(cpu, int) and cpu not in usable_cpus:
            cpu_list = ", ".join(map(str, sorted(usable_cpus)))
            raise PreflightError(f"placement.{name} = {cpu}: this process may use the CPUs {cpu_list}")


def _check_data(config: Config) -> None:
    if config.data is None:
        return
    try:
        for file in expand([config.data]):
            open_log(file, config.read_options)
    except DataError as error:
        raise PreflightError(f"DATA={error}") from None


def check_script(config: Config) -> None:
    """Raise `PreflightError` for a script that is not here, `ConfigError` without the package of scripts."""
    if config.script is None:
        return
    find_script_cluster()
    path = Path(config.script_command[0])
    if not path.is_file():
        reason = "it is not a file" if path.exists() else "there is no such file"
        raise PreflightError(f"SCRIPT={config.script}: expected a Python script, got {path}: {reason}")


def _check_runs(config: Config) -> None:
    try:
        config.runs.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=config.runs).close()
    except OSError as error:
        raise PreflightError(
            f"runs = {config.runs}: {error.strerror}; set runs in CONFIG to a folder that can be written"
        ) from None

"""Compiling the switch's own code ahead: what is left to a second process, and to this one if that fails."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch import warm


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Record commands of processes, which are replaced by one that does nothing."""
    commands: list[list[str]] = []
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        commands.append(command)
        return popen([sys.executable, "-c", ""], **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    yield commands


@pytest.mark.parametrize(("cores", "processes"), [({0}, 0), ({0, 1}, 1)])
def test_a_second_core_compiles_a_part_in_another_process(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, cores: set[int], processes: int
) -> None:
    tables: list[bool] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cores)
    monkeypatch.setattr(warm, "warm_tables", lambda: tables.append(gc.isenabled()))
    warm.warm()
    assert len(started) == processes
    assert tables == [False]  # in this process too, without collecting garbage
    assert gc.isenabled()


def test_the_statement_for_the_other_process_works() -> None:
    source = str(Path(warm.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", warm._SUBPROCESS_SOURCE.format(source)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plain_switch_compiles_neither_queues_nor_impairments_nor_pcap_files() -> None:
    code = (
        "import numba\n"
        "from softswitch.ports import capture, forwarding, reorder_buffer\n"
        "from softswitch.ports.impairment import Direction, Impairment\n"
        "from softswitch.ports.loop import PortLoop\n"
        "from softswitch.ports.options import PortOptions\n"
        "uncached = numba.njit(error_model='numpy')(forwarding.run.py_func)\n"
        "for impairments in ({}, {(1, Direction.IN): Impairment(loss=0.5)}):\n"
        "    PortLoop({}, PortOptions(1, impairments)).close()\n"
        "    uncached.compile(forwarding.run.signatures[-1])\n"
        "    parts = (capture.capture, reorder_buffer.impair_frame, forwarding.process_departures)\n"
        "    print([bool(each.signatures) for each in parts])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[False, False, False]", "[True, True, True]"]

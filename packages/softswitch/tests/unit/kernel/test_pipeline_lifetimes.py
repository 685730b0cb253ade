"""Descriptors and memory of the kernel's pipelines: a pipeline that is replaced leaves none."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from softswitch.datapath import LivePipeline
from softswitch.errors import KernelError
from softswitch.kernel import bpf, front
from softswitch.kernel.arena import Arena
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.machine import Machine
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS
from switch_harness.constructs import compiled
from switch_harness.effort import seeds, steps
from switch_harness.kernel import OnLoopback, without_packets
from switch_harness.lifetimes import History, without_collector
from switch_harness.p4runtime import DEVICE


@pytest.fixture(autouse=True)
def no_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "build_front", without_packets(front.build_front))


def bpf_descriptors() -> int:
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the folder itself
            found += os.readlink(descriptor).startswith("anon_inode:bpf-")
    return found


def bpf_mappings() -> int:
    return Path("/proc/self/maps").read_text().count("anon_inode:bpf-map")


@pytest.mark.parametrize("seed", seeds(4))
def test_each_pipeline_in_use_has_the_same_descriptors_and_mappings(seed: int) -> None:
    """Descriptors of arena, buffers, ring, its two mappings and two programs."""
    descriptors, mappings = bpf_descriptors(), bpf_mappings()

    def check(in_use: int) -> None:
        assert bpf_descriptors() - descriptors == 7 * in_use
        assert bpf_mappings() - mappings == 3 * in_use

    with without_collector():
        History(OnLoopback, Random(seed)).run(steps(60), check)


def test_a_program_that_the_kernel_refuses_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever command of the kernel fails."""
    program, call, descriptors, mappings = compiled("l2"), bpf.call, bpf_descriptors(), bpf_mappings()
    remaining = 0  # commands until the kernel refuses one

    def call_until_refused(*arguments: Any) -> int:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise bpf.BpfError("refused")
        return call(*arguments)

    def is_refused(count: int) -> bool:
        nonlocal remaining
        remaining = count
        try:
            AttachedPipeline(program).close()
        except KernelError:
            return True
        return False

    monkeypatch.setattr(bpf, "call", call_until_refused)
    allowed = 0
    while is_refused(allowed):
        assert (bpf_descriptors(), bpf_mappings()) == (descriptors, mappings), allowed
        allowed += 1
    assert allowed > 4  # three maps and two programs
    assert (bpf_descriptors(), bpf_mappings()) == (descriptors, mappings)


def test_a_view_keeps_its_memory_mapped_after_the_arena_is_closed() -> None:
    mappings = bpf_mappings()
    arena = Arena(state_bytes=1 << 12, mailbox_bytes=1 << 12, cpu_area_bytes=1 << 12)
    view = arena.view(arena.mailbox, 1 << 12)
    view[:] = 7
    arena.close()
    arena.close()
    assert np.all(view == 7) and bpf_mappings() == mappings + 1
    del view
    assert bpf_mappings() == mappings
    with pytest.raises(AttributeError):
        _ = arena.words


def test_a_closed_pipeline_leaves_no_descriptors_while_references_remain() -> None:
    descriptors, mappings = bpf_descriptors(), bpf_mappings()
    pipeline = AttachedPipeline(compiled("l2"))
    pipeline.close()
    assert (bpf_descriptors(), bpf_mappings()) == (descriptors, mappings)
    pipeline.close()


def test_a_machine_that_is_closed_leaves_nothing() -> None:
    descriptors, mappings = bpf_descriptors(), bpf_mappings()
    server: P4RuntimeServer[LivePipeline] = P4RuntimeServer(DEVICE)
    machine = Machine(Settings(program=PROGRAMS / "l2.json", datapath=Datapath.KERNEL), server)
    assert bpf_mappings() > mappings
    machine.close()
    assert (bpf_descriptors(), bpf_mappings()) == (descriptors, mappings)
    assert server.pipelines.active is None


def test_a_view_is_mapped_to_the_end_of_the_process() -> None:
    """Threads and other handlers of the exit may still read."""
    code = (
        "import atexit; views = []; atexit.register(lambda: print(views[0].sum()));"
        "from softswitch.kernel.arena import Arena;"
        "arena = Arena(state_bytes=4096, mailbox_bytes=4096, cpu_area_bytes=4096);"
        "views.append(arena.view(arena.mailbox, 4096)); views[0][:] = 1"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "512\n")

"""Pinned state: if a switch is killed at any point, its successor has all completed writes."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from finsy.proto import p4r

from softswitch import ir, libc
from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.errors import KernelError, SwitchError
from softswitch.kernel import front
from softswitch.kernel import pins as pins_module
from softswitch.kernel.pins import Pins, unpin
from softswitch.p4runtime import journal
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.p4runtime.status import Refusal
from switch_harness.effort import seeds, steps
from switch_harness.kernel import OnLoopback, without_packets
from switch_harness.p4runtime import ENTITIES, Clock, Control, config, controlled, read, write
from switch_harness.p4runtime_draws import EVERYTHING, draw, serialized
from switch_harness.wording import mentions, says_in_one_line

FIXED: dict[str, Any] = {"ports": {1: "s1"}, "cpu_port": 255}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "pins"
    if (tmp_path / "pins").exists():
        unpin(tmp_path / "pins")


@pytest.fixture(autouse=True)
def no_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "build_front", without_packets(front.build_front))


class Killed(BaseException):
    """In place of a signal."""


class Switch:
    """A control plane over pins, without ports."""

    def __init__(self, folder: Path) -> None:
        self.pins = Pins(folder)
        self.notice_socket, self._other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.cpu_socket = self._other
        self.time = 0
        self.views: list[npt.NDArray[np.uint64]] | None = None  # views of memory, which hold references to it
        self._pipelines = Pipelines[Any](self, self._make, SwitchPorts.folder_of)
        with ExitStack() as undo:
            undo.callback(self.kill)
            if self.pins.pinned is not None:
                self._pipelines.resume(self.pins.pinned.folder, self._make_pinned)
            undo.pop_all()

    def _make(self, program: ir.Program) -> OnLoopback:
        pipeline = OnLoopback(program, generation=self.pins.begin())
        if self.views is not None:
            self.views.append(pipeline.arena.words)
        return pipeline

    def _make_pinned(self, program: ir.Program) -> OnLoopback:
        return OnLoopback(program, generation=self.pins.pinned)

    @property
    def control(self) -> Control:
        return self._pipelines.get_served()

    def set_config(self, action: str, cookie: int = 0) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(config=config(cookie, ENTITIES))
        request.action = p4r.SetForwardingPipelineConfigRequest.Action.Value(action)
        self._pipelines.set(adopt(request))

    # -- as ports

    def now(self) -> int:
        return self.time

    def start(self, pipeline: OnLoopback) -> None:
        if pipeline.arena.is_restored:
            pipeline.finish_replay()
        assert pipeline.generation is not None
        self.pins.commit(pipeline.generation)

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        """Unmap the arena, which this process can map once, and close the files, as the system would."""
        self._pipelines.close()
        self.pins.close()
        self.notice_socket.close()
        self._other.close()


def kill_at(pipeline: Any, turns: int, is_done: bool) -> None:
    """Have its process killed before or after that turn of its writes."""
    memory = pipeline._kernel_memory
    run = memory._run

    def turn(frame: bytes) -> object:
        nonlocal turns
        turns -= bool(memory._mailbox[0])  # else it is a read
        if turns < 0 and not is_done:
            raise Killed
        ran = run(frame)
        if turns < 0:
            raise Killed
        return ran

    memory._run = turn


def killed(switch: Switch, request: p4r.WriteRequest) -> bool:
    try:
        switch.control.write(adopt(request))
    except Killed:
        return True
    except Refusal:
        pass
    return False


@pytest.mark.parametrize("seed", seeds(2))
def test_the_next_process_has_all_completed_writes(folder: Path, seed: int) -> None:
    random, kills = Random(seed), 0
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    oracle = controlled(ENTITIES, CompiledPipeline, clock := Clock())
    for _ in range(steps(48)):
        clock.now = switch.time = switch.time + random.randrange(1000)
        updates = [draw(random)[0] for _ in range(random.randrange(1, 8))]
        atomicity = random.choices(p4r.WriteRequest.Atomicity.values(), [4, 1, 1])[0]
        request = p4r.WriteRequest(updates=updates, atomicity=atomicity)
        if random.random() < 0.4:
            kill_at(switch.control.pipeline, random.randrange(4), random.random() < 0.5)
        if killed(switch, request):
            kills += 1
            switch = restarted(switch)
        with suppress(Refusal):
            write(oracle, *updates, atomicity=atomicity)
        if random.random() < 0.1:
            switch = restarted(switch)
        assert serialized(read(switch.control, *EVERYTHING)) == serialized(read(oracle, *EVERYTHING))
        assert same_memory(switch.control.pipeline, oracle.pipeline)
    assert kills > 1
    switch.kill()


def restarted(switch: Switch) -> Switch:
    folder = switch.pins.folder
    switch.kill()
    return Switch(folder)


def same_memory(one: Any, other: Any) -> bool:
    """Whether packets meet the same (the words that lookups compare with apart)."""
    layout, words = one._layout, slice(0, one._layout.work)
    ours, reference = (each._memory.words[words].copy() for each in (one, other))
    for table in layout.tables.values():
        for each in (ours, reference):
            each[table.default : table.default + table.action] = 0
    return bool((ours == reference).all())


def generations(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "bpf").iterdir() if path.name.isdigit())


def test_a_saved_config_that_was_not_committed_is_removed_at_the_restart(folder: Path) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    switch.set_config("VERIFY_AND_SAVE")
    switch.set_config("VERIFY")
    assert generations(folder) == ["1", "2"]
    switch = restarted(switch)
    assert generations(folder) == ["1"]
    switch.set_config("VERIFY_AND_COMMIT")
    assert generations(folder) == ["2"]
    assert not (folder / "1").exists()
    switch.kill()


def test_a_partly_journalled_request_is_dropped_at_the_restart(folder: Path) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    random = Random(1)
    updates = [draw(random)[0] for _ in range(50)]
    switch.control.write(adopt(p4r.WriteRequest(updates=updates)))
    there = serialized(read(switch.control, *EVERYTHING))
    journal = folder / "1" / "journal"
    stored = journal.stat().st_size
    with journal.open("ab") as file:
        file.write(bytes(8) + (99).to_bytes(4, "little") + b"half")
    switch = restarted(switch)
    assert serialized(read(switch.control, *EVERYTHING)) == there
    assert journal.stat().st_size == stored
    switch.kill()


def test_a_disk_that_is_full_refuses_the_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    before, size = serialized(read(switch.control, *EVERYTHING)), (folder / "1" / "journal").stat().st_size
    in_part = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: in_part(descriptor, data[:9]))
    random = Random(1)
    with pytest.raises(Refusal, match=mentions("persisted", "request")):
        switch.control.write(adopt(p4r.WriteRequest(updates=[draw(random)[0] for _ in range(9)])))
    monkeypatch.undo()
    assert serialized(read(switch.control, *EVERYTHING)) == before
    assert (folder / "1" / "journal").stat().st_size == size
    switch.kill()


def test_a_disk_that_is_full_refuses_a_cookie(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal, "replace_file", full)
    with pytest.raises(Refusal, match=mentions("persisted", "pipeline")):
        switch.set_config("RECONCILE_AND_COMMIT", cookie=5)
    monkeypatch.undo()
    assert switch.control.config.cookie.cookie == 0
    switch = restarted(switch)
    switch.set_config("RECONCILE_AND_COMMIT", cookie=6)
    switch = restarted(switch)
    assert switch.control.config.cookie.cookie == 6
    switch.kill()


def test_a_full_disk_refuses_a_config_and_leaves_no_files_of_the_config(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    files = sorted(open_files())

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal, "replace_file", full)
    with pytest.raises(Refusal, match=mentions("persisted", "pipeline")):
        switch.set_config("VERIFY_AND_COMMIT")
    assert (sorted(open_files()), generations(folder)) == (files, ["1"])
    switch.kill()


def test_files_of_a_replaced_pipeline_are_closed(folder: Path) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    for action in ("VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT"):
        switch.set_config(action)
    assert len([file for file in open_files() if file.startswith(str(folder)) and "journal" in file]) == 1
    switch.kill()


def open_files() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the folder itself
            yield os.readlink(descriptor)


def test_a_config_is_verified_while_an_earlier_config_is_being_removed(folder: Path) -> None:
    """Its number is free again before its memory is."""
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    switch.views = []
    switch.set_config("VERIFY")
    assert generations(folder) == ["1"]
    switch.set_config("VERIFY")
    switch.views = None
    switch.kill()


def test_a_journal_without_entries_that_packets_meet_is_refused(folder: Path) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    random = Random(1)
    switch.control.write(adopt(p4r.WriteRequest(updates=[draw(random)[0] for _ in range(50)])))
    os.truncate(folder / "1" / "journal", 0)
    with pytest.raises(KernelError, match=mentions("missing", "journal")):
        restarted(switch)


def test_a_journal_that_cannot_be_read_leaves_no_open_files(folder: Path) -> None:
    files = sorted(open_files())
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    (folder / "1" / "journal").write_bytes(bytes(8) + (4).to_bytes(4, "little") + b"\xff" * 4)
    with pytest.raises(SwitchError, match=mentions("journal", 0)):
        restarted(switch)
    assert sorted(open_files()) == files


# ---- the folder


def test_a_pin_folder_belongs_to_one_switch_at_a_time(folder: Path) -> None:
    with closing(Pins(folder)), pytest.raises(KernelError) as refused:
        Pins(folder)
    assert says_in_one_line(str(refused.value), "--pin", "ID", folder, os.getpid())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"ports": {1: "s2"}}, "ports {'1': 's1'}, not ports {'1': 's2'}"),
        ({"cpu_port": None}, "cpu_port 255, not cpu_port None"),
    ],
)
def test_another_switch_is_refused(folder: Path, other: dict[str, Any], message: str) -> None:
    with closing(Pins(folder)) as pins:
        pins.check(**FIXED)
    with closing(Pins(folder)) as pins:
        pins.check(**FIXED)
        with pytest.raises(KernelError) as refused:
            pins.check(**{**FIXED, **other})
    text = f"--pin {folder}: it was pinned with {message}; `--unpin {folder}` removes it"
    assert str(refused.value) == text


def test_another_version_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Pins(folder)) as pins:
        pins.check(**FIXED)
        monkeypatch.setattr(pins_module, "source_digest", lambda: "0123456789abcdef")
        with pytest.raises(KernelError, match=mentions("--unpin", "softswitch")):
            pins.check(**FIXED)


def test_a_rebooted_machine_has_no_pinned_state(folder: Path) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    switch.pins.check(**FIXED)
    switch.kill()
    unmount(folder / "bpf")
    with closing(Pins(folder)) as pins:
        assert pins.pinned is None
        assert pins.identity() is None
        assert sorted(path.name for path in folder.iterdir()) == ["bpf", "current", "lock"]


def unmount(path: Path) -> None:
    libc.call("umount2", os.fsencode(path), 0)


def test_a_folder_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KernelError) as refused:
        Pins(tmp_path / "file")
    assert str(refused.value) == f"--pin {tmp_path / 'file'}: File exists"


def test_a_folder_without_pins_cannot_be_unpinned(tmp_path: Path) -> None:
    with pytest.raises(KernelError) as refused:
        unpin(tmp_path / "nothing")
    assert says_in_one_line(str(refused.value), "--unpin", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_unpinning_a_folder_leaves_nothing(folder: Path) -> None:
    switch = Switch(folder)
    switch.set_config("VERIFY_AND_COMMIT")
    switch.kill()
    unpin(folder)
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mounts").read_text()

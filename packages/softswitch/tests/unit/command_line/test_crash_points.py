"""The switch writes its files as a whole: after a kill or on a full disk, the old ones remain."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from nativekit import cache
from softswitch.bmv2 import install
from softswitch.errors import SwitchError
from softswitch.p4runtime.journal import Journal
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal
from softswitch.ports.report import SwitchCounters
from switch_harness.file_layer import CallLog, FileLayer, WritingCommand, judge

Found = Mapping[str, object]
OLD, NEW = (p4r.ForwardingPipelineConfig(p4_device_config=text * 3000) for text in (b"old", b"new"))
WRITE = p4r.WriteRequest(device_id=1)


@contextmanager
def journal(folder: Path, config: p4r.ForwardingPipelineConfig | None = None) -> Iterator[Journal]:
    opened = Journal(folder, config)
    try:
        yield opened
    finally:
        opened.close()


def write_journal(folder: Path) -> None:
    with journal(folder, OLD) as opened:
        opened.add(1, WRITE.SerializeToString())


def set_config(folder: Path) -> None:
    with journal(folder) as opened:
        opened.set_config(NEW)


def add_request(folder: Path) -> None:
    with journal(folder) as opened:
        if len(list(opened.read_requests())) == 1:  # a switch replays the journal first
            opened.add(2, WRITE.SerializeToString())


def read_journal(folder: Path) -> Found:
    with journal(folder) as opened:
        return {
            "config": opened.config().SerializeToString(),
            "times": [time for time, _request in opened.read_requests()],
        }


def content_of(*names: str) -> Callable[[Path], Found]:
    def read(folder: Path) -> Found:
        return {name: file.read_bytes() if (file := folder / name).exists() else None for name in names}

    return read


def counters(lost_notices: int) -> Callable[[Path], None]:
    made = SwitchCounters(ports={}, no_such_port=0, lost_notices=lost_notices)
    return lambda folder: made.write(folder / "counters.json")


def store_object(folder: Path) -> None:
    cache.write_entry(folder / "cache" / "1.o", b"code" * 3000)


def nothing(_folder: Path) -> None: ...


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_refused_request_leaves_no_part_before_the_next(tmp_path: Path, error: int) -> None:
    with journal(tmp_path, OLD) as opened:
        opened.add(1, WRITE.SerializeToString())
        for number, is_written in ((0, False), (1, False), (2, True)):  # a write is two calls
            refused = nullcontext() if is_written else pytest.raises(Refusal)
            with FileLayer(tmp_path, CallLog(number, error)).active(), refused:
                opened.add(2 + number, WRITE.SerializeToString())
        opened.add(5, WRITE.SerializeToString())
        assert [time for time, _request in opened.read_requests()] == [1, 4, 5]


COMMANDS = {
    "the pipeline config": (write_journal, set_config, read_journal),
    "a request": (write_journal, add_request, read_journal),
    "counters": (counters(1), counters(2), content_of("counters.json")),
    "compiled code": (nothing, store_object, content_of("cache/1.o")),
    "scripts of BMv2": (
        nothing, lambda folder: install.install(folder / "bin"),
        content_of(*(f"bin/{name}" for name in install.PROGRAMS)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_or_failed_write_leaves_the_old_or_the_new_file(tmp_path: Path, name: str) -> None:
    prepare, command, read = COMMANDS[name]
    writing = WritingCommand(
        prepare, command, read, errors=(SwitchError, Refusal, OSError), leaves_files=False
    )
    judged = judge(writing, tmp_path)
    assert judged.kills >= 2 and judged.failures >= 2, judged

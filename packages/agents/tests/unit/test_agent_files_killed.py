"""Files that an agent makes or writes by system calls, after each of which it may be killed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hosts import ledger
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.replay import ReplayLog
from hotline_agents.ps.durable import DurableFile
from tests.harness.single_step import folder_states

JOB = 3


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Folder of the files as a killed agent left them."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_the_files_appear_with_all_their_content(tmp_path: Path, elsewhere: Path) -> None:
    """A worker that is killed while it makes its files can start again, and a reader finds none or all."""
    folder = tmp_path / "made"
    folder.mkdir()

    def make() -> None:
        Ledger(JOB, 1, KeySpace(9), 4, folder / "ledger")
        ReplayLog.in_file(KeySpace(9), 4, (2,), folder / "log")

    n_complete = 0
    for files in folder_states(make, folder):
        lay_out(files, elsewhere)
        n_complete += "log" in files
        if "ledger" in files:
            assert ledger.read(elsewhere / "ledger").lanes_sent == 0
        log = ReplayLog.in_file(KeySpace(9), 4, (2,), elsewhere / "log")
        assert log.switch_numbers == (2,) and not log.words.any()
        Ledger(JOB, 1, KeySpace(9), 4, elsewhere / "ledger")
        assert ledger.read(elsewhere / "ledger").epoch == 1
        assert sorted(path.name for path in elsewhere.iterdir()) == ["ledger", "log"]
    assert n_complete


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    """Make the folder have these files only."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


IDENTITY = {"ps": 1}


@pytest.fixture
def server_file(tmp_path: Path) -> Path:
    folder = tmp_path / "server"
    folder.mkdir()
    return folder / "ps.db"


def use_server(path: Path, use: Callable[[DurableFile], None]) -> None:
    with closing(DurableFile(path, IDENTITY, "never", 1 << 20)) as durable:
        use(durable)


def append(durable: DurableFile) -> None:
    durable.append(b"third")


def checkpoint(durable: DurableFile) -> None:
    durable.checkpoint([("a", b"new"), ("c", bytes(9000))])


def append_long(durable: DurableFile) -> None:
    durable.append(bytes(20_000))


@pytest.mark.parametrize("use", [append, checkpoint, append_long])
def test_a_server_killed_between_system_calls_has_its_state_before_or_after(
    server_file: Path, elsewhere: Path, use: Callable[[DurableFile], None]
) -> None:
    def begin(durable: DurableFile) -> None:
        durable.checkpoint([("a", b"old"), ("b", b"too")])
        durable.append(b"first")
        durable.append(b"second")

    use_server(server_file, begin)
    before, after = content_of(server_file), None
    found = []
    for files in folder_states(lambda: use_server(server_file, use), server_file.parent):
        lay_out(files, elsewhere)
        found.append(content_of(elsewhere / server_file.name))
    after = content_of(server_file)
    assert before != after and before in found and after in found
    first_after = found.index(after)
    assert found[:first_after] == [before] * first_after
    assert found[first_after:] == [after] * (len(found) - first_after)


def test_a_server_killed_while_creating_its_file_can_create_the_file_again(
    server_file: Path, elsewhere: Path
) -> None:
    n_states = 0
    for files in folder_states(lambda: use_server(server_file, append), server_file.parent):
        lay_out(files, elsewhere)
        assert content_of(elsewhere / server_file.name) in (({}, []), ({}, [b"third"]))
        n_states += 1
    assert n_states > 5


def content_of(path: Path) -> tuple[dict[str, bytes], list[bytes]]:
    """Return what a server that starts finds."""
    with closing(DurableFile(path, IDENTITY, "never", 1 << 20)) as durable:
        return durable.parts(), list(durable.notes())

"""When `hotline up` asks the keeper for checkpoints, and what follows if there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from experiment.errors import AgentFailed
from experiment.liveness import Liveness
from experiment.run_config import CheckpointConfig
from hotline_scripts.checkpoints import Checkpoints, Pushes
from hotline_scripts.embedding_tables import make_tables
from hotline_scripts.keeper import KeeperConfig
from hotline_scripts.script_session import Terms

TABLES = make_tables({"users": (4, 2)})
TERMS = Terms(7, 1, "none", 32, [("127.0.0.1", 5)], [("127.0.0.2", 6), ("127.0.0.3", 6)], "here", 1)


class FakeKeeper:
    """The host of a keeper, and the keeper's agent, which notes what it is asked."""

    def __init__(self) -> None:
        self.settings: Any = None
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.has_room, self.ends = True, list[str]()

    def make_agent(self, name: str, module: str, settings: Any, logs: Path, **_: object) -> FakeKeeper:
        self.settings = settings
        return self

    async def start(self) -> FakeKeeper:
        return self

    async def ready(self) -> None: ...

    async def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        self.asked.put_nowait(command)
        if not self.has_room:
            raise AgentFailed("keeper: no space left on device")
        return {"pushes": {"users": 3}}

    def kill(self) -> None:
        self.ends.append("kill")

    async def quit(self) -> None:
        self.ends.append("quit")


@pytest.fixture
def keeper() -> FakeKeeper:
    return FakeKeeper()


@pytest.fixture
def checkpoints(keeper: FakeKeeper, tmp_path: Path) -> Checkpoints:
    settings = CheckpointConfig(file=tmp_path / "model.npz", interval_s=0.001)
    host: Any = keeper
    return Checkpoints(settings, host, 1, tmp_path, Liveness())


def save(checkpoints: Checkpoints, pushes: Pushes) -> dict[str, Any]:
    return {"cmd": "save", "file": str(checkpoints.file), "pushes": pushes}


async def test_a_session_without_a_file_begins_with_zeros_and_is_written_once_its_tables_are_set(
    checkpoints: Checkpoints, keeper: FakeKeeper
) -> None:
    looks: list[Pushes | None] = [None, None, {"users": 5}]

    def read_pushes() -> Pushes | None:
        return looks.pop(0) if looks else {"users": 6}

    assert await checkpoints.begin(TABLES, TERMS, read_pushes) == TERMS
    assert KeeperConfig(**keeper.settings).address == ("127.0.0.3", 6)
    assert await keeper.asked.get() == save(checkpoints, {"users": 5})
    assert await keeper.asked.get() == save(checkpoints, {"users": 6})
    await checkpoints.end({"users": 9})
    written = [keeper.asked.get_nowait() for _ in range(keeper.asked.qsize())]
    assert written[-1] == save(checkpoints, {"users": 9}) and keeper.ends == ["quit"]
    await checkpoints.end({"users": 9})  # of a session that has not begun
    assert keeper.asked.empty() and keeper.ends == ["quit"]


async def test_a_session_with_a_file_begins_with_its_values_and_a_lost_model_is_not_written(
    checkpoints: Checkpoints, keeper: FakeKeeper
) -> None:
    checkpoints.file.touch()
    terms = await checkpoints.begin(TABLES, TERMS, lambda: None)
    assert terms.pushes == {"users": 3}
    await checkpoints.end(None)
    assert keeper.asked.get_nowait() == {"cmd": "restore", "file": str(checkpoints.file)}
    assert keeper.asked.empty() and keeper.ends == ["kill", "quit"]


async def test_a_full_disk_is_a_warning_and_the_next_interval_tries_again(
    checkpoints: Checkpoints, keeper: FakeKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    keeper.has_room = False
    await checkpoints.begin(TABLES, TERMS, lambda: {})
    for _ in range(2):
        assert (await keeper.asked.get())["cmd"] == "save"
    checkpoints.file.touch()  # what a keeper with room leaves
    keeper.has_room = True
    await checkpoints.end({})
    assert "no space left" in caplog.text and str(checkpoints.file) in caplog.text

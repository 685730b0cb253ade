"""The files of `hotline up`'s sessions, and the switch's rows of their workers, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import polars as pl
import pytest

from experiment.errors import PreflightError
from experiment.run_config import MAX_WORKERS, CheckpointConfig, Config
from foundation.logs.columns import UPDATES
from foundation.protocol import addressing
from foundation.protocol.requests import request_frame
from hotline_scripts.checkpoints import with_keeper
from hotline_scripts.embedding_tables import make_tables
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.script_session import WorkersSession
from hotline_scripts.terms import session_terms
from hotline_scripts.up import UpBackend, arm_for_scripts, check, folder_of
from softswitch.progress import ENDED
from switch_harness.wording import mentions, says
from tests.harness.livenet import LiveNet
from tests.harness.sessions import FakeNetwork
from topologies.cpu_placement import place


async def test_the_files_of_earlier_sessions_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session without pushes or reports leaves none."""
    config = Config(runs=tmp_path)
    folder = folder_of(config)
    (folder / "parts").mkdir(parents=True)
    network: Any = FakeNetwork()
    backend = UpBackend(config, place(config.placement, config.servers, config.workers), network)

    for name in ("_start_servers", "_restart"):
        monkeypatch.setattr(backend, name, AsyncMock())
    for pushes in (5, 7, 0, 9):
        backend._has_reports = False
        if pushes:
            (folder / "parts").mkdir(exist_ok=True)
            rows = {name: [1] for name in UPDATES} | {"updates": [pushes]}
            pl.DataFrame(rows, schema=dict(UPDATES)).write_parquet(folder / "parts/updates-ps-0-0.parquet")
            backend.report({"rank": 0, "pushes": pushes})
            backend.report({"rank": 1, "pushes": pushes})
        await backend.end(None)
    counts = {file.name: pl.read_parquet(file)["updates"].to_list() for file in folder.glob("updates*")}
    assert counts == {"updates-1.parquet": [5], "updates-2.parquet": [7], "updates.parquet": [9]}
    reports = {
        file.name: [json.loads(line)["pushes"] for line in file.read_text().splitlines()]
        for file in folder.glob("reports*")
    }
    assert reports == {"reports-1.jsonl": [5, 5], "reports-2.jsonl": [7, 7], "reports.jsonl": [9, 9]}


async def test_the_log_of_up_names_a_table_without_values_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a session without checkpoints would look like one with them."""
    config = Config(runs=tmp_path, checkpoint=CheckpointConfig(file=tmp_path / "model.npz"))
    network: Any = FakeNetwork(workers=config.workers + 1)
    backend = UpBackend(config, place(config.placement, config.servers, config.workers), network)
    session = WorkersSession(
        make_tables({"users": (4, 1), "bias": (1, 1)}),
        session_terms(config, arm_for_scripts(config)),
        1,
        "end",
    )
    backend.rendezvous = Rendezvous(backend)
    assert backend._read_pushes() is None and caplog.text == ""
    backend.rendezvous._session = session
    session.find_setting("users", 0).is_set.set_result(True)
    for _ in range(2):
        assert backend._read_pushes() is None
    assert says(caplog.text, "bias", "kv.init") and "users" not in caplog.text and len(caplog.records) == 1
    session.find_setting("bias", 0).is_set.set_result(True)
    assert backend._read_pushes() == {}


async def test_the_switch_takes_frames_of_an_admitted_worker_and_none_of_the_worker_before(
    tmp_path: Path,
) -> None:
    config = Config(runs=tmp_path, workers=2, servers=2)
    arm = arm_for_scripts(config)
    async with LiveNet(arm.job, keys=1) as net:
        switch = Mock(activity=AsyncMock(return_value=ENDED))
        network: Any = FakeNetwork(switch, net.address)
        backend = UpBackend(config, place(config.placement, config.servers, config.workers), network)
        await backend.prepare()

        def epochs_taken(worker: int) -> list[int]:
            """Return the epochs in which the switch forwards a push of a worker to its server."""
            assert net.pipeline is not None
            frames = {
                epoch: request_frame("push", [7], [1], job=arm.job, worker=worker, epoch=epoch)
                for epoch in (1, 2, 3)
            }
            port = addressing.worker_port(worker)
            return [epoch for epoch, frame in frames.items() if net.pipeline.process(port, frame, 0, 0)]

        assert [epochs_taken(1), epochs_taken(2)] == [[1], [1]]
        await backend.admit(rank=1, epoch=2)
        assert [epochs_taken(1), epochs_taken(2)] == [[1], [2]]
        await backend.admit(rank=1, epoch=3)
        assert [epochs_taken(1), epochs_taken(2)] == [[1], [3]]


@pytest.mark.parametrize(
    "settings, facts",
    [
        ({"checkpoint": {"file": "model.txt"}}, ("model.txt", ".npz")),
        ({"checkpoint": {"file": "nowhere/model.npz"}}, ("nowhere/model.npz", "folder")),
        ({"checkpoint": {"file": "model.npz"}, "machines": "tcp://a:1"}, ("checkpoint.file", "machines")),
        ({"checkpoint": {"file": "model.npz"}, "workers": MAX_WORKERS}, ("checkpoint.file", MAX_WORKERS - 1)),
    ],
)
def test_settings_of_unwritable_checkpoints_are_refused_before_a_process_starts(
    settings: dict[str, Any], facts: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PreflightError, match=mentions(*facts)):
        check(Config(**settings), Mock())


def test_a_checkpoint_takes_the_address_of_one_worker_more(tmp_path: Path) -> None:
    config = Config(runs=tmp_path, workers=3, checkpoint=CheckpointConfig(file=tmp_path / "model.npz"))
    network: Any = FakeNetwork()
    network.workers = [Mock() for _ in range(4)]
    backend = UpBackend(config, place(config.placement, config.servers, config.workers), network)
    terms = session_terms(with_keeper(config), arm_for_scripts(config))
    assert (backend.size, len(terms.workers), with_keeper(config).workers) == (3, 4, 4)
    assert with_keeper(Config(workers=3)).workers == 3

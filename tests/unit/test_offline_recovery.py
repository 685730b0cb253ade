"""Recovery of the unreplayed updates that a crashed run left in its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from foundation.protocol.codec import Caller
from foundation.protocol.header import unpack
from hosts.hotset.ps.core import ParameterServer
from hosts.hotset.worker.client import HotsetClient
from hosts.keys import KeySpace
from hosts.offline_recovery import UNREPLAYED_FOLDER, CrashedRun
from hosts.ps.config import PsConfig
from hosts.ps.durable import DurableFile
from hosts.ps.journal import JOURNAL_BYTES
from hosts.worker.ledger import Ledger
from hosts.worker.replay import ReplayLog, file_name
from hotline.cli.commands import hotline
from tests.harness.agents import ps_config, worker_config
from tests.harness.wire import reply

SIZE, CAPACITY, JOB, N_PS = 300, 100, 3, 2
SPACE = KeySpace(SIZE)


class Run:
    """The folder of a run of two servers and two workers that all died."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / UNREPLAYED_FOLDER).mkdir(parents=True)
        (folder / "logs").mkdir()
        (folder / "run.json").write_text("{}")
        self.servers = [self._server(ps) for ps in range(N_PS)]
        self.pushed = np.zeros(SIZE, np.uint32)
        for worker in (1, 2):
            self._work(worker)
        for _, durable in self.servers:
            durable.close()

    def _server(self, ps: int) -> tuple[ParameterServer[str], DurableFile]:
        settings = ps_config(
            Path("parts"), ps, "10.0.0.9", {JOB: False}, n_ps=N_PS, parameters=SIZE,
            recovery={"replay_log": True}, durable={"file": f"parts/ps-{ps}.db"},
        )  # fmt: skip
        (self.folder / "logs" / f"ps-{ps}.json").write_text(json.dumps(settings))
        config = PsConfig.model_validate(settings)
        core: ParameterServer[str] = ParameterServer(
            ps, N_PS, SPACE, {JOB: 1}, lambda: 0, journal_bytes=JOURNAL_BYTES, has_replay_logs=True
        )
        file = self.folder / UNREPLAYED_FOLDER / f"ps-{ps}.db"
        return core, DurableFile(file, config.identity(), "never", 1 << 30)

    def _work(self, worker: int) -> None:
        """Push to all keys: some RPCs are served by the switch, and some of the last push are lost."""
        services, arms = ["10.0.1.9"] * N_PS, {JOB: "offload"}
        settings = worker_config(Path("parts"), "10.0.0.1", services, arms, number=worker, trace="trace")
        (self.folder / "logs" / f"worker-{worker}.json").write_text(json.dumps(settings))
        folder = self.folder / UNREPLAYED_FOLDER
        log = ReplayLog.in_file(SIZE, CAPACITY, 0, folder / file_name(f"worker-{worker}", JOB))
        ledger = Ledger(JOB, 1, SIZE, CAPACITY, folder / f"ledger-worker-{worker}-job-{JOB}-epoch-1.bin")
        client = HotsetClient(Caller(JOB, worker, 1), N_PS, SPACE, lambda: 0, max_keys=CAPACITY, log=log)
        for start in range(0, SIZE, CAPACITY):
            keys, deltas = np.arange(start, start + CAPACITY), np.full(CAPACITY, worker, np.uint32)
            answered = ledger.open(keys, deltas)
            client.push(1, keys, deltas, answered)
            is_last = start + CAPACITY == SIZE
            for n, (datagram, ps) in enumerate(iter(client.transmit, None), start=1):
                if is_last and n % 3 == 0:
                    continue
                client.receive(self._answer(ps, bytes(datagram), is_switch=n % 2 == 0), 0, 0)
            if not is_last:
                assert client.idle
                ledger.close()
            self.pushed[keys] += np.where(answered, np.uint32(worker), np.uint32(0))

    def _answer(self, ps: int, request: bytes, is_switch: bool) -> bytes:
        if is_switch:
            h = unpack(request)
            return reply(h, served=h.live)
        core, durable = self.servers[ps]
        answered = core.handle(request, 0, 0, "worker")
        assert answered is not None
        durable.append(core.server.notes)
        core.server.forget_notes()
        return answered[1]

    def held(self) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """Return the values in the servers' files."""
        held = np.zeros(SIZE, np.uint32)
        for ps in range(N_PS):
            core, durable = self._server(ps)
            core.recover(durable.parts(), durable.notes())
            own = core.stores[JOB].contents()
            held[own.keys.astype(int)] = own.values
            durable.close()
        return held


def recover(run: Path, *options: str) -> Result:
    return CliRunner().invoke(hotline, ["recover", str(run), *options], catch_exceptions=False)


def test_unreplayed_updates_are_listed_and_applied_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    unreplayed = CrashedRun(tmp_path).unreplayed()
    assert [(each.worker, each.job) for each in unreplayed] == [("worker-1", JOB), ("worker-2", JOB)]
    missing, keys = np.count_nonzero(run.pushed - run.held()), [each.keys for each in unreplayed]
    assert max(keys) <= missing <= sum(keys)
    reported = json.loads(recover(tmp_path, "--json").stdout)
    assert reported == {"unreplayed": [each._asdict() for each in unreplayed]}
    for _ in range(2):  # the second call finds nothing to do
        ran = recover(tmp_path, "--apply")
        assert ran.exit_code == 0, ran.output
        assert run.held().tolist() == run.pushed.tolist()
        assert CrashedRun(tmp_path).unreplayed() == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["logs", "run.json", UNREPLAYED_FOLDER]


def test_what_is_still_missing_then_is_an_error(tmp_path: Path) -> None:
    """The replay log has lost an update."""
    run = Run(tmp_path)
    log = ReplayLog.reopen(tmp_path / UNREPLAYED_FOLDER / file_name("worker-2", JOB), 0)
    lost = int(np.flatnonzero(log.words)[0])
    log.words[lost] = 0
    ran = recover(tmp_path, "--apply")
    assert ran.exit_code == 1 and "1 key differ" in ran.output
    assert np.flatnonzero(run.held() != run.pushed).tolist() == [lost]


def test_an_interrupted_recovery_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    before = run.held().tolist()

    def interrupt(crashed: CrashedRun, servers: object, job: int) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CrashedRun, "_count_mismatches", interrupt)
        with pytest.raises(KeyboardInterrupt):
            CrashedRun(tmp_path).recover()
    assert run.held().tolist() == before and len(CrashedRun(tmp_path).unreplayed()) == 2
    assert CrashedRun(tmp_path).recover() == 0 and run.held().tolist() == run.pushed.tolist()


def test_a_server_that_cannot_be_recovered_closes_its_file(tmp_path: Path) -> None:
    """The connections are what `closed_connections` checks at the end of every test."""
    run = Run(tmp_path)
    _, durable = run._server(1)
    durable.checkpoint([("cells of another version", b"")])
    durable.close()
    with pytest.raises(KeyError):
        CrashedRun(tmp_path).recover()


def test_a_folder_without_unreplayed_updates(tmp_path: Path) -> None:
    ran = recover(tmp_path)
    assert ran.exit_code == 1 and f"{tmp_path}: not a run folder, there is no run.json" in ran.output
    (tmp_path / "run.json").write_text("{}")
    ran = recover(tmp_path)
    assert ran.exit_code == 1 and f"{tmp_path}: found no folder unreplayed" in ran.output

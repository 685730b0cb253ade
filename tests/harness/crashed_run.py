"""The folder of a run whose processes have all died, with unreplayed updates in its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from foundation.protocol.codec import Caller
from foundation.protocol.control import Command, Control, build
from foundation.protocol.header import PS_BITS, unpack
from foundation.protocol.leaf_spine import ServerHomes
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.ps_config import PsConfig
from hosts.replay import ReplayLog, file_name
from hosts.unreplayed import UNREPLAYED_FOLDER
from hotline_agents.collect import CollectingServer
from hotline_agents.collect.moves import CollectClient
from hotline_agents.hotset.ps.parameter_server import OffloadingServer, ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.ps.durable import DurableFile
from hotline_agents.ps.journal import JOURNAL_BYTES
from tests.harness.agents import ps_config, worker_config
from tests.harness.wire import reply

SIZE, CAPACITY, JOB, N_PS = 300, 100, 3, 2
SPACE = KeySpace(SIZE)


class CrashedRunFolder:
    """The folder of a run of two servers and two workers, whose files are in the folder `files` of it."""

    def __init__(
        self, folder: Path, files: str = UNREPLAYED_FOLDER, *, controller: int | None = None, epoch: int = 1,
        homes: int = 1, levels: int = 1,
    ) -> None:  # fmt: skip
        """`controller` is the epoch of a controller that has renewed the servers, `epoch` that of callers.

        With several homes each worker has one of its own, and the design is `collect`. With two levels
        servers have a home at each, and each worker uses both.
        """
        self.folder, self.homes, self.levels = folder, max(homes, levels), levels
        self.files = folder / files
        self.files.mkdir(parents=True)
        (folder / "logs").mkdir()
        (folder / "run.json").write_text("{}")
        self.servers = [self.open_server(ps) for ps in range(N_PS)]
        if controller is not None:
            self._renew(controller, epoch)
        self.epoch = epoch
        self.pushed = np.zeros(SIZE, np.uint32)
        for worker in (1, 2):
            self._work(worker)
        for _, durable in self.servers:
            durable.close()

    @classmethod
    def reopen(cls, folder: Path) -> CrashedRunFolder:
        run = cls.__new__(cls)
        run.folder, run.files, run.homes, run.levels = folder, folder / UNREPLAYED_FOLDER, 1, 1
        return run

    def _renew(self, controller: int, epoch: int) -> None:
        for ps, (core, durable) in enumerate(self.servers):
            keys = np.array([epoch], np.uint64)
            core.command(build(Control(Command.RENEW, JOB, ps, controller, 0, keys)), None)
            durable.append(core.server.notes)
            core.server.forget_notes()

    @property
    def _design(self) -> str:
        return "hotset" if self.homes == self.levels else "collect"

    def open_server(self, ps: int) -> tuple[OffloadingServer[str], DurableFile]:
        settings = ps_config(
            Path("parts"), ps, "10.0.0.9", {JOB: False}, n_ps=N_PS, parameters=SIZE, homes=self.homes,
            design=self._design, recovery={"replay_log": True}, durable={"file": f"parts/ps-{ps}.db"},
        )  # fmt: skip
        (self.folder / "logs" / f"ps-{ps}.json").write_text(json.dumps(settings))
        config = PsConfig.model_validate(settings)
        is_hotset = self._design == "hotset"
        server: type[OffloadingServer[str]] = ParameterServer if is_hotset else CollectingServer
        core = server(
            ps, N_PS, SPACE, {JOB: 1}, lambda: 0, journal_bytes=JOURNAL_BYTES, has_replay_logs=True,
            homes=self.homes,
        )  # fmt: skip
        file = self.files / f"ps-{ps}.db"
        return core, DurableFile(file, config.identity(), "never", 1 << 30)

    def _work(self, worker: int) -> None:
        """Push to all keys: some RPCs are served by the switch, and some of the last push are lost."""
        services, arms = ["10.0.1.9"] * N_PS, {JOB: "offload"}
        settings = worker_config(Path("parts"), "10.0.0.1", services, arms, number=worker, trace="trace",
            recovery={"replay_log": True}, design=self._design, home_index=self._home_index(worker),
            homes=self.homes_of_servers, switches=[0] * self.levels,
        )  # fmt: skip
        (self.folder / "logs" / f"worker-{worker}.json").write_text(json.dumps(settings))
        log = ReplayLog.in_file(
            KeySpace(SIZE),
            CAPACITY,
            (0,) * self.levels,
            self.files / file_name(f"worker-{worker}", JOB),
            self.homes_of_servers,
        )
        ledger = Ledger(
            JOB, 1, KeySpace(SIZE), CAPACITY, self.files / f"ledger-worker-{worker}-job-{JOB}-epoch-1.bin"
        )
        make_client = HotsetClient if self._design == "hotset" else CollectClient
        client = make_client(
            Caller(JOB, worker, self.epoch), N_PS, SPACE, lambda: 0, max_keys=CAPACITY, log=log
        )
        client.set_home_index(self._home_index(worker))
        if self.levels > 1:
            client.set_homes(self.homes_of_servers)
            client.hint(np.arange(0, SIZE, 2, dtype=np.uint64), SIZE)
        for start in range(0, SIZE, CAPACITY):
            keys, deltas = np.arange(start, start + CAPACITY), np.full(CAPACITY, worker, np.uint32)
            answered = ledger.open(keys, deltas)
            client.push(1, keys, deltas, answered)
            is_last = start + CAPACITY == SIZE
            for n, (datagram, ps) in enumerate(iter(client.transmit, None), start=1):
                if is_last and n % 3 == 0:
                    continue
                # RPCs to the upper level have hinted rows of all servers.
                is_switch = n // 2 % 2 == 0 or bool(unpack(datagram).ps >> PS_BITS and self.levels > 1)
                client.receive(self._answer(ps, bytes(datagram), is_switch), 0, 0)
            if not is_last:
                assert client.idle
                ledger.close()
            self.pushed[keys] += np.where(answered, np.uint32(worker), np.uint32(0))

    def _home_index(self, worker: int) -> int:
        return (worker - 1) % (self.homes // self.levels)

    @property
    def homes_of_servers(self) -> ServerHomes:
        """At the lower level the first home is that of all servers, at the upper one the second."""
        return [[level] * N_PS for level in range(self.levels)] if self.levels > 1 else ()

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
            core, durable = self.open_server(ps)
            core.recover(durable.parts(), durable.notes())
            own = core.stores[JOB].contents()
            held[own.keys.astype(int)] = own.values
            durable.close()
        return held

"""Checkpoints of the sessions of `hotline up`: a process of its own reads the tables while workers train."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from experiment.folder import chown_to_user
from experiment.liveness import Liveness
from experiment.run_config import CheckpointConfig, Config
from foundation.errors import HotlineError
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.script_session import Terms
from topologies.agents import Agent
from topologies.testbed import AgentHost

log = logging.getLogger(__name__)

Pushes = Mapping[str, int]
"""Table -> pushes to it so far, as far as tables have an optimiser."""
_MODULE = "hotline_scripts.keeper"


def with_keeper(config: Config) -> Config:
    """Return settings of a network that has a host more, if there are checkpoints: for the keeper."""
    if config.checkpoint.file is None:
        return config
    return config.model_copy(update={"workers": config.workers + 1})


class Checkpoints:
    """Starts a session from the file if it exists, and writes it at intervals and at the session's end."""

    def __init__(
        self, settings: CheckpointConfig, host: AgentHost, rank: int, logs: Path, liveness: Liveness
    ) -> None:
        assert settings.file is not None
        self.file = settings.file.resolve()
        self._interval_s = settings.interval_s
        self._host, self._rank, self._logs, self._liveness = host, rank, logs, liveness
        self._keeper: Agent | None = None
        self._writing: asyncio.Future[None] | None = None

    async def begin(
        self, tables: EmbeddingTables, terms: Terms, read_pushes: Callable[[], Pushes | None]
    ) -> Terms:
        """Restore the checkpoint if there is one; return the terms with the pushes before it.

        `read_pushes` returns None as long as not all tables are set. Raises `HotlineError`.
        """
        self._keeper = await self._host.make_agent(
            "keeper", _MODULE, self._settings(tables, terms), self._logs, liveness=self._liveness
        ).start()
        await self._keeper.ready()
        if self.file.exists():
            answer = await self._keeper.ask({"cmd": "restore", "file": str(self.file)})
            terms = replace(terms, pushes=answer["pushes"])
            log.info("the session begins with the checkpoint %s", self.file)
        self._writing = asyncio.ensure_future(self._write_at_intervals(read_pushes))
        return terms

    async def end(self, pushes: Pushes | None) -> None:
        """Write the checkpoint, unless `pushes` is None since the model is lost or incomplete."""
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
        keeper, self._keeper, self._writing = self._keeper, None, None
        if keeper is None:
            return
        if pushes is not None:
            await self._write(keeper, pushes)
        else:
            keeper.kill()  # it may wait for a server that has ended
        await keeper.quit()

    def _settings(self, tables: EmbeddingTables, terms: Terms) -> dict[str, object]:
        return {
            "rank": self._rank,
            "job": terms.job,
            "epoch": terms.epoch,
            "design": terms.design,
            "window": terms.window,
            "address": terms.workers[self._rank],
            "peers": terms.servers,
            "tables": tables.to_declaration(),
        }

    async def _write_at_intervals(self, read_pushes: Callable[[], Pushes | None]) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            if self._keeper is not None and (pushes := read_pushes()) is not None:
                await asyncio.shield(self._write(self._keeper, pushes))

    async def _write(self, keeper: Agent, pushes: Pushes) -> None:
        begin_s = time.monotonic()
        try:
            await keeper.ask({"cmd": "save", "file": str(self.file), "pushes": dict(pushes)})
        except HotlineError as error:
            log.warning("no checkpoint was written, and %s is the former one: %s", self.file, error)
            return
        chown_to_user(self.file)
        log.info("checkpoint: %s, written in %.1f s", self.file, time.monotonic() - begin_s)

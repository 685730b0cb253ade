"""`python -m hotline_scripts.keeper --config FILE`: read and write whole tables of a session of `hotline up`.

It is a caller as workers are, with a number and an address of its own, and takes part in no barrier. So it
reads while workers push: of each row, it gets for each worker a prefix of its pushes to that row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from foundation.errors import HotlineError
from foundation.logs.parts import save_arrays
from foundation.settings import Strict
from hosts.agent import execute, load_config, prepare_process, print_json
from hotline_scripts.embedding_tables import parse_declaration
from hotline_scripts.kv.archive import load_archive, table_arrays
from hotline_scripts.kv.joining import make_engine
from hotline_scripts.kv.whole_tables import read_exactly, set_table


class KeeperConfig(Strict):
    """The terms of a session for a rank that no worker has, as `kv.joining.make_engine` reads them."""

    rank: int
    job: int
    epoch: int
    design: str
    window: int
    address: tuple[str, int]
    peers: list[tuple[str, int]]
    tables: dict[str, list[int | float | str]]
    """The declaration of the session's tables."""


class Keeper:
    """Makes and restores checkpoints, which are archives of tables (`kv/archive.py`)."""

    def __init__(self, config: KeeperConfig) -> None:
        self._tables = parse_declaration(config.tables)
        terms = config.model_dump(exclude={"tables"}) | {"parts": None}
        self._engine = make_engine(terms, self._tables.space, lambda _: None, lambda _: None)

    def restore(self, file: str) -> dict[str, int]:
        """Set all tables, whose values are 0, to those of a file; return the pushes to each before it."""
        archive = load_archive(file, self._tables)
        for name, saved in archive.items():
            set_table(self._engine, self._tables[name], saved.values, saved.states)
        return {name: saved.steps for name, saved in archive.items()}

    def save(self, file: str, pushes: Mapping[str, int]) -> None:
        """Write all tables to a file, which is the former one, or whole, at any time."""
        arrays: dict[str, Any] = {}
        for name, table in self._tables.items():
            arrays |= table_arrays(table, read_exactly(self._engine, table, pushes.get(name, 0)))
        save_arrays(Path(file), arrays)

    def close(self) -> None:
        self._engine.close()

    def handlers(self) -> dict[str, Callable[..., dict[str, object]]]:
        def save(file: str, pushes: dict[str, int]) -> dict[str, object]:
            self.save(file, pushes)
            return {}

        return {"restore": lambda file: {"pushes": self.restore(file)}, "save": save}


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True)
def main(path: Path) -> None:
    """Keep the model of a session; commands come as JSON lines on standard input."""
    try:
        with closing(Keeper(load_config(path, KeeperConfig))) as keeper:
            prepare_process(None)
            print_json(ready=True)
            for line in sys.stdin:
                execute(line, keeper.handlers())
    except (HotlineError, OSError) as error:
        print_json(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()

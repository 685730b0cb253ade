"""The common part of the client and the server: configuration, file descriptor limit, JSON-lines commands."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import click

from foundation.errors import HotlineError
from foundation.settings import Strict
from hosts.agent import Commands, execute, load_config, prepare_process, print_json

Handlers = Mapping[str, Callable[..., dict[str, object]]]


class ProcessConfig(Strict):
    address: str
    job: int
    epoch: int
    cpu: int | None = None


class Process(Protocol):
    def handlers(self) -> Handlers: ...

    def wait(self) -> None:
        """Work until a command arrives, and read it."""
        ...

    def close(self) -> None: ...


ConfigT = TypeVar("ConfigT", bound=ProcessConfig)


def make_command(
    help: str, config_type: type[ConfigT], make_process: Callable[[ConfigT, Commands], Process]
) -> click.Command:
    @click.command(help=f"{help} Commands are JSON lines on standard input.")
    @click.option("--config", "path", type=click.Path(path_type=Path), required=True)
    def main(path: Path) -> None:
        try:
            config: ConfigT = load_config(path, config_type)
            commands = Commands(sys.stdin.fileno())
            with raise_file_limit(), closing(make_process(config, commands)) as process:
                prepare_process(config.cpu)
                print_json(ready=True)
                while not commands.closed:
                    line = commands.next()
                    if line is None:
                        process.wait()
                    else:
                        execute(line, process.handlers())
        except (HotlineError, OSError) as error:
            print_json(error=str(error))
            sys.exit(1)

    return main


@contextmanager
def raise_file_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

"""What the two processes of Fig. 9 share: a configuration, as many sockets as they want, JSON lines."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from foundation.errors import HotlineError
from foundation.settings import Strict
from hosts.agent import Commands, execute, load_config, say, settle

Handlers = Mapping[str, Callable[..., dict[str, object]]]


class ProcessConfig(Strict):
    """Of either."""

    address: str
    job: int
    epoch: int
    cpu: int | None = None


class Process(Protocol):
    """Either of them."""

    def handlers(self) -> Handlers:
        """The commands by name."""
        ...

    def wait(self) -> None:
        """Do what there is to do until there is a command, and take it in."""
        ...

    def close(self) -> None:
        """Close all sockets."""
        ...


ConfigT = TypeVar("ConfigT", bound=ProcessConfig)


def run(path: Path, model: type[ConfigT], make: Callable[[ConfigT, Commands], Process]) -> None:
    """Do commands until standard input ends; an error is one line of JSON and exit code 1."""
    try:
        config: ConfigT = load_config(path, model)
        commands = Commands(sys.stdin.fileno())
        with many_files(), closing(make(config, commands)) as process:
            settle(config.cpu)
            say(ready=True)
            while not commands.closed:
                line = commands.next()
                if line is None:
                    process.wait()
                else:
                    execute(line, process.handlers())
    except (HotlineError, OSError) as error:
        say(error=str(error))
        sys.exit(1)


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process open as many sockets as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

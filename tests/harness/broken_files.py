"""Files and folders that no command can use, one of each kind, and the path arguments of all commands."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import polars as pl
import zstandard

_TEXT = b"iteration,worker,key\n" + b"".join(b"%d,1,%d\n" % (row, row % 977) for row in range(20_000))


def _parquet() -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"key": range(5_000), "updates": range(1, 5_001)}).write_parquet(out)
    return out.getvalue()


def _corrupt(data: bytes, first: int, end: int) -> bytes:
    return data[:first] + bytes(255 - byte for byte in data[first:end]) + data[end:]


CONTENTS: Mapping[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "truncated gzip": lambda: gzip.compress(_TEXT)[:-2_000],
    "truncated zstd": lambda: zstandard.compress(_TEXT)[:-500],
    "corrupt gzip": lambda: _corrupt(gzip.compress(_TEXT), 200, 400),
    "NUL bytes": lambda: bytes(5_000),
    "text with NUL bytes": lambda: b"iteration,worker,key\n1,1,\x00\n",
    "wrong magic": lambda: b"\x7fELF" + bytes(range(256)),
    "Parquet without its end": lambda: _parquet()[:-500],
    "Parquet with a corrupt footer": lambda: _corrupt(
        _parquet(), len(_parquet()) - 300, len(_parquet()) - 20
    ),
    "Parquet with corrupt pages": lambda: _corrupt(_parquet(), 50, 5_000),
    "not UTF-8": lambda: b"caf\xe9 = \xff\xfe\n",
    "wrong JSON": lambda: b'{"target": ',
    "nested JSON": lambda: b"[" * 100_000,
    "JSON of a list": lambda: b"[true, [1]]\n",
    "JSON that lacks fields": lambda: b"{}\n",
    "JSON with a wrong type": lambda: json.dumps({"target": 7, "config": [], "blocks": None}).encode(),
}
"""Kind -> content of a file."""


def put_missing(path: Path) -> None:
    pass


def put_folder(path: Path) -> None:
    path.mkdir()


def put_loop(path: Path) -> None:
    path.symlink_to(path.name)


def put_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def put_content(content: Callable[[], bytes]) -> Callable[[Path], None]:
    """Return a function that writes this content, which is made at the first call."""
    cached = cache(content)

    def put(path: Path) -> None:
        path.write_bytes(cached())

    return put


BROKEN: Mapping[str, Callable[[Path], None]] = {
    "missing": put_missing,
    "folder": put_folder,
    "symlink loop": put_loop,
    "dangling symlink": put_dangling,
    **{name: put_content(content) for name, content in CONTENTS.items()},
}
"""Kind -> function that makes a broken file at a path."""


OUTPUTS = ("hugectr", "into", "junit", "output", "svg", "torchrec")
"""Names of the parameters that are written; a parameter of any other name is read."""


@dataclass(frozen=True)
class PathArgument:
    """An argument of a command that is a path."""

    command: tuple[str, ...]
    parameter: click.Parameter
    others: tuple[click.Parameter, ...]  # required parameters besides this one

    @property
    def is_output(self) -> bool:
        """Whether the command writes there."""
        return self.parameter.name in OUTPUTS

    def __str__(self) -> str:
        return f"{' '.join(self.command)} {self.parameter.get_error_hint(None)}"


def path_arguments(command: click.Command, names: tuple[str, ...] = ()) -> Iterator[PathArgument]:
    """Yield every path argument below a command, also those that are a path or something else."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from path_arguments(child, (*names, name))
        return
    for parameter in command.params:
        is_path = isinstance(parameter.type, click.Path)
        mentions_file = "FILE" in (getattr(parameter, "metavar", None) or "")
        is_model = parameter.name == "models"  # a name or a file
        if is_path or mentions_file or is_model:
            others = (each for each in command.params if each.required and each is not parameter)
            yield PathArgument(names, parameter, tuple(others))

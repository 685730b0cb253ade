"""`hotline new`: the files of a design of one's own, which run."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from zlib import crc32

import click

from foundation.checkout import ROOT
from foundation.designs.arm_numbers import constant_of
from foundation.errors import HotlineError
from foundation.logs.parts import write_text
from hotline.cli.common import PATH, json_option, one_line_errors, print_json

_TUTORIAL = ROOT / "examples" / "tutorial"
_INCLUDED = ("frame.p4", "turn_around.p4")
_FIRST_JOB, _PAIRS = 1_000, 20_000
"""Numbers of the arms of new designs, which are far from those of Hotline's designs."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@click.command()
@click.argument("name", metavar="PACKAGE.NAME")
@click.option(
    "--into", type=PATH, default=Path(), show_default="this folder", help="Folder of the new package."
)
@json_option
def new(name: str, into: Path, as_json: bool) -> None:
    """Write a design of your own: P4, Python, tests and settings.

    The design adds in the switch, each push once, and answers in place of the servers. Its package is a new
    folder, and nothing is overwritten. docs/tutorial.md explains each part.
    """
    with one_line_errors():
        package, design = _names(name)
        folder = into / package
        _check_is_new(folder)
        texts = _texts(package, design)
        _write(folder, texts)
    if as_json:
        print_json({"files": [str(folder / file) for file in texts]})
        return
    click.echo(f"{folder} has {', '.join(texts)}; with PYTHONPATH={into.resolve()}:")
    click.echo(f"  .venv/bin/python -m pytest {folder}")
    click.echo(f"  ./hotline simulate {folder / 'run.toml'}")


def _names(name: str) -> tuple[str, str]:
    package, _, design = name.partition(".")
    if not all(_NAME.fullmatch(each) and not keyword.iskeyword(each) for each in (package, design)):
        raise HotlineError(
            "expected PACKAGE.NAME, each of small letters, digits and _, and no word of Python, such as "
            f"mine.idea, got {name!r}"
        )
    return package, design


def _check_is_new(folder: Path) -> None:
    if folder.exists():
        raise HotlineError(f"{folder}: expected no such folder, as nothing is overwritten")
    if find_spec(folder.name) is not None:
        raise HotlineError(f"expected a new package, but Python has one of the name {folder.name!r}")


def _texts(package: str, design: str) -> dict[str, str]:
    """Return the files of a package: name -> text."""
    arm, job = design.replace("_", "-"), _FIRST_JOB + 2 * (crc32(f"{package}.{design}".encode()) % _PAIRS)
    values = {
        "module": f"{package}.{design}", "name": design, "arm": arm, "constant": constant_of(arm),
        "job_off": job, "job_on": job + 1,
    }  # fmt: skip
    templates = files("hotline.new_design")
    names = {"design.p4": f"{design}.p4", "design.py": f"{design}.py", "test_design.py": f"test_{design}.py"}
    filled = {
        names.get(name, name): Template((templates / f"{name}.template").read_text()).substitute(values)
        for name in (*names, "run.toml")
    }
    included = {name: (_TUTORIAL / name).read_text() for name in _INCLUDED}
    return {"__init__.py": "", **filled, **included}


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as scratch:
            package = Path(scratch) / folder.name
            package.mkdir()
            for name, text in texts.items():
                write_text(package / name, text)
            package.rename(folder)
    except OSError as error:
        raise HotlineError(f"{folder}: cannot be written: {error.strerror}") from error

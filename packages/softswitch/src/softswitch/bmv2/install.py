"""The subcommand `install-as`: write scripts with the program names of BMv2 and p4c that run softswitch."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from nativekit.files import replace_file
from softswitch.errors import SwitchError
from softswitch.shared import VARIABLE

PROGRAMS: Mapping[str, tuple[str, ...]] = {  # program name -> arguments inserted before the user's
    **{name: ("run-as", name) for name in ("simple_switch_grpc", "simple_switch")},
    "simple_switch_CLI": ("cli", "--keep-going"),
    **{name: ("compile-as", name) for name in ("p4c", "p4c-bm2-ss", "p4test")},
}
_DESCRIPTION = "Write scripts with the program names of BMv2 and p4c into DIR, which run softswitch."
_SHARED_HELP = "Let switches be forks of one process: many take less memory and time to start."
_MARKER = "runs softswitch"
_MAX_SHEBANG_BYTES = 120  # every kernel reads at least this much of a `#!` line


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="softswitch install-as", description=_DESCRIPTION)
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="Folder of the scripts; put it first in PATH."
    )
    parser.add_argument("--shared", action="store_true", help=_SHARED_HELP)
    values = parser.parse_args(arguments)
    folder = values.folder
    try:
        install(folder, values.shared)
    except SwitchError as error:
        sys.exit(f"softswitch: error: {error}")
    print(f"{', '.join(PROGRAMS)}: in {folder}")
    installed_script = shutil.which(next(iter(PROGRAMS)))
    if installed_script is None or Path(installed_script).resolve().parent != folder.resolve():
        print(
            f'softswitch: export PATH="{folder.resolve()}:$PATH" lets other programs find them',
            file=sys.stderr,
        )


def install(folder: Path, is_shared: bool = False) -> None:
    """Write all scripts; raise SwitchError and write none if another program wrote one of these files.

    With `is_shared`, switches are forks of one process (`softswitch.shared`).
    """
    for name in PROGRAMS:
        if (path := folder / name).exists() and not _is_softswitch_script(path):
            raise SwitchError(
                f"{path} is there already, and softswitch did not write it: choose another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, inserted_arguments in PROGRAMS.items():
            text = script(name, inserted_arguments, is_shared=is_shared)
            replace_file(folder / name, text.encode(), mode=0o755)
    except OSError as error:
        raise SwitchError(f"{error.filename or folder}: {error.strerror}") from None


def script(
    name: str, inserted_arguments: tuple[str, ...], python: str = sys.executable, is_shared: bool = False
) -> str:
    shebang = f"#!{python}"
    if len(shebang) > _MAX_SHEBANG_BYTES or " " in python:
        # sh runs the exec line, which is part of a string in Python.
        shebang = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"
    source = Path(__file__).parents[2]
    return (
        f"{shebang}\n"
        f'"""{name}: {_MARKER} (`softswitch install-as`)."""\n'
        "import os\nimport sys\n\n"
        f"os.environ.setdefault({VARIABLE!r}, {str(int(is_shared))!r})\n"
        f"sys.path.insert(0, {str(source)!r})\n"
        f"sys.argv[1:1] = {list(inserted_arguments)!r}\n"
        "from softswitch.verbs import main\n\n"
        "main()\n"
    )


def _is_softswitch_script(path: Path) -> bool:
    try:
        return _MARKER in path.read_text()
    except (OSError, UnicodeDecodeError):
        return False

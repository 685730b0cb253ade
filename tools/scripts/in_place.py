"""Build backend of the testbed, which is installed in place (`pip install --editable .`) and in no other way.

A wheel would lack the compiled P4 programs, and install `analysis`, `hosts` and more as top-level packages.
"""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any, NoReturn
from zipfile import ZipFile

from setuptools import build_meta

_CHECKOUT = Path(__file__).parents[2]
_FOLDERS = (_CHECKOUT, _CHECKOUT / "src", *sorted(_CHECKOUT.glob("packages/*/src")))


def build_editable(wheel_directory: str, *arguments: Any) -> str:
    """Build setuptools' wheel, and put the sources of the testbed and of packages on `sys.path`.

    Setuptools' import hook comes after `sys.path`, where Python takes any folder with the name of a package
    for a namespace: the checkout itself as `hotline`, for a Python that is started beside it.
    """
    remove_old_metadata(_CHECKOUT)
    name: str = build_meta.build_editable(wheel_directory, *arguments)
    add_file(Path(wheel_directory, name), "hotline_in_place.pth", "".join(f"{each}\n" for each in _FOLDERS))
    return name


def remove_old_metadata(checkout: Path) -> None:
    """Remove the `.egg-info` of an earlier installation.

    Python started in the checkout would read its entry points in place of the installed ones.
    """
    for folder in checkout.glob("*.egg-info"):
        rmtree(folder)


def add_file(wheel: Path, name: str, text: str) -> None:
    with ZipFile(wheel) as old_wheel:
        contents = {member: old_wheel.read(member) for member in old_wheel.namelist()}
    digest = urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()
    (record,) = (member for member in contents if member.endswith(".dist-info/RECORD"))
    contents[record] = f"{name},sha256={digest},{len(text.encode())}\n".encode() + contents[record]
    with ZipFile(wheel, "w") as new_wheel:
        for member, data in {name: text.encode(), **contents}.items():
            new_wheel.writestr(member, data)


get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def _refuse(*_: Any, **__: Any) -> NoReturn:
    sys.exit(
        "hotline-testbed cannot be installed, it runs from its checkout (`make run-topo`); "
        "its switch can be installed alone (`pip install ./packages/softswitch`)"
    )


get_requires_for_build_wheel = get_requires_for_build_sdist = build_wheel = build_sdist = _refuse

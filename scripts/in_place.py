"""Build backend of the testbed, which is installed in place (`pip install --editable .`) and in no other way.

A wheel would lack the compiled P4 programs, and put `analysis`, `hosts` and more among everybody's packages.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from setuptools import build_meta

build_editable = build_meta.build_editable
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def _refuse(*_: Any, **__: Any) -> NoReturn:
    sys.exit(
        "hotline-testbed is not installed, it runs from its checkout (`make run-topo`); "
        "its switch can be installed alone (`pip install ./softswitch`)"
    )


get_requires_for_build_wheel = get_requires_for_build_sdist = build_wheel = build_sdist = _refuse

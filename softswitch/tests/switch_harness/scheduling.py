"""Assignment of tests to the processes of pytest-xdist.

It depends on the folder and file of a test, and not on xdist's groups: pytest 9.2 does not see what xdist 3.8
adds to a test's name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

NETWORKS = ("tests/mininet/", "tests/netns/")
_TOGETHER = ("golden", "reduce", "simulator", "switchml")
AS_ONE = (
    *(f"tests/unit/{folder}/" for folder in _TOGETHER),
    *(f"packages/{package}/tests/unit/" for package in ("answers", "dense", "policies")),
)


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A test goes to whichever process is free; with all of its module, where that makes something once.

    The tests of some folders go together: what they make once, or have compiled, no other test needs.

    In the order of their names: networks, which take long, are not last. Where there is but one network for
    all processes, all of these go to one.
    """

    def __init__(self, config: pytest.Config, log: Any, *, is_one_network: bool) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._root = config.rootpath
        self._is_one_network = is_one_network

    def _split_scope(self, nodeid: str) -> str:
        if self._is_one_network and nodeid.startswith(NETWORKS):
            return "networks"
        folder = next((each for each in AS_ONE if nodeid.startswith(each)), "")
        if folder:
            return folder
        module = nodeid.partition("::")[0]
        return module if _is_shared(self._root / module) else nodeid


@cache
def _is_shared(module: Path) -> bool:
    return 'scope="module"' in module.read_text()

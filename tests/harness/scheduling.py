"""What of the tests runs one after the other when others run beside it (pytest-xdist).

By where a test is, and not by xdist's groups: pytest 9.2 does not see what xdist 3.8 adds to a test's name.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/mininet/", "tests/unit/test_foreign_clients.py::test_p4runtime_shell")
"""A network is one at a time on a machine; p4runtime-shell is installed by the first test that wants it."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Each test goes to whichever worker is free, but those of one of `TOGETHER` all go to one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((start for start in TOGETHER if nodeid.startswith(start)), nodeid)

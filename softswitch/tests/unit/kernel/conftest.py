"""These need a kernel that can be the datapath."""

from __future__ import annotations

import pytest

from softswitch.kernel.probe import probe


@pytest.fixture(scope="session")
def unable() -> str | None:
    return probe()


@pytest.fixture(autouse=True)
def a_kernel_that_can(unable: str | None) -> None:
    if unable is not None:
        pytest.skip(f"the kernel cannot be the datapath: {unable}")

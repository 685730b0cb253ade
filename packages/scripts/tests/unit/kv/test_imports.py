"""Modules that a script's worker imports: what only runs need would double the time in which it joins."""

from __future__ import annotations

import subprocess
import sys

import pytest

JOINS = "from hotline_scripts.kv import joining, worker; import sys; print(*sys.modules, sep='\\n')"


@pytest.fixture(scope="module")
def imported() -> set[str]:
    ran = subprocess.run([sys.executable, "-c", JOINS], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize("module", ["polars", "experiment.run_config", "hotline_scripts.rendezvous"])
def test_a_worker_of_a_script_imports_no_module_of_runs(imported: set[str], module: str) -> None:
    assert "hotline_scripts.kv.engine" in imported and module not in imported

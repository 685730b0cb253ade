"""The pytest plugin of both projects: skips without root or BMv2, namespaces, Hypothesis profiles."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from softswitch.errors import Bmv2NotFound
from softswitch.processes import BMV2_PROGRAM, BMV2_VARIABLE, NO_BMV2, installed_bmv2
from switch_harness import durations
from switch_harness.effort import FAST_SHARE, SOAK_TIMES
from switch_harness.namespaces import is_namespaced, namespaced_python

# No deadline: the time of an example depends on the machine and on its other load.
_ALL = settings.get_profile("default").max_examples
settings.register_profile(
    "test",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=_ALL // FAST_SHARE,
)
settings.register_profile("soak", settings.get_profile("test"), max_examples=SOAK_TIMES * _ALL)
settings.load_profile("test")

_GC_THRESHOLDS = (10_000, 10, 10)
_PROGRAMS = 32  # that switches in one process share
PYTHON = pytest.StashKey["str | None"]()
"""Python command of pytest-xdist's workers, if each gets separate namespaces."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations",
        action="store_true",
        help=f"write the durations of all tests into {durations.FILE}, by which processes share them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Restore the default handling of SIGINT, which a script's background jobs and their children ignore.

    Child processes import this checkout, wherever `.venv` was made, and share their bytecode: to rewrite the
    assertions of all tests takes each xdist worker 12 s.
    """
    if _needs_namespaces(config):
        _restart_in_namespaces(config)
    config.addinivalue_line("markers", "no_cover: disables coverage (of pytest-cov, which is optional)")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
    if config.getoption("record_durations", False) and "PYTEST_XDIST_WORKER" not in os.environ:
        from switch_harness.scheduling import unit_of

        recorder = durations.DurationRecorder(config.rootpath / durations.FILE, unit_of)
        config.pluginmanager.register(recorder)


def _needs_namespaces(config: pytest.Config) -> bool:
    """Return whether root's tests would run in this process, and find the machine's runs and interfaces."""
    is_pytest = Path(sys.argv[0]).parent.name == "pytest" or Path(sys.argv[0]).name in ("pytest", "py.test")
    is_alone = not (config.getoption("numprocesses", None) or config.getoption("tx", None))
    runs_tests = not config.option.collectonly and "PYTEST_XDIST_WORKER" not in os.environ
    return is_pytest and is_alone and runs_tests and os.geteuid() == 0 and not is_namespaced()


def _restart_in_namespaces(config: pytest.Config) -> None:
    """Replace this process by the same session in separate namespaces, if these can be made."""
    if (python := namespaced_python()) is None:
        return
    command = [*shlex.split(python), "-m", "pytest", *map(str, config.invocation_params.args)]
    config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    os.execv(command[0], command)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist is optional
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Start each xdist worker in separate namespaces, if possible, so that networks do not collide."""
    config.stash[PYTHON] = namespaced_python()
    for spec in specs:
        spec.python = spec.python or config.stash[PYTHON]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Use this project's scheduler for any `--dist`."""
    from switch_harness.scheduling import Scheduling

    return Scheduling(config, log, is_one_network=config.stash[PYTHON] is None)


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Make `no_cover` effective in xdist workers, too, in which pytest-cov has started coverage twice."""
    if item.get_closest_marker("no_cover") is None:
        yield
        return
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without collecting garbage, which would take a sixth of the time.

    Afterwards exempt the tests from it: a pass takes 0.3 s, and some tests force many. While tests run,
    collect less often than by default, which would take 8 % of their time.
    """
    gc.disable()
    yield
    gc.enable()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        no_bmv2 = installed_bmv2() is None
    except Bmv2NotFound as error:
        raise pytest.UsageError(str(error)) from None
    for item in items:
        needs_root = any(item.get_closest_marker(name) for name in ("mininet", "netns"))
        needs_bmv2 = item.get_closest_marker("bmv2")
        if needs_root and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root: `make test`"))
        if needs_bmv2 and no_bmv2:
            item.add_marker(pytest.mark.skip(reason=f"{NO_BMV2}; see Vagrantfile"))


@pytest.fixture(scope="session", autouse=True)
def programs_loaded_once() -> Iterator[None]:
    """Let switches in this process share the programs that they load: a large one takes 0.2 s of each test.

    A program cannot change. Tests of the loader call it themselves.
    """
    from softswitch.load import load_program  # imported late, as what collects tests does not need it
    from softswitch.p4runtime import loaded_config

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loaded_config, "load_cached_program", lru_cache(_PROGRAMS)(load_program))
        yield


@pytest.fixture(scope="session")
def kernel_datapath() -> None:
    """Skip tests where the kernel cannot be the datapath."""
    from softswitch.kernel.probe import probe  # imported late, as it takes 0.2 s of each session

    if (unable := probe()) is not None:
        pytest.skip(f"the kernel cannot be the datapath: {unable}")


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run the test as on a machine without BMv2."""
    monkeypatch.delenv(BMV2_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def fake_bmv2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set HOTLINE_BMV2 to a program that prints its arguments and fails."""
    program = tmp_path / BMV2_PROGRAM
    program.write_text('#!/bin/sh\necho "fake: $*"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv(BMV2_VARIABLE, str(program))
    return program

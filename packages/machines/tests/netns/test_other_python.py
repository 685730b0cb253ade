"""A machine with another Debian, and so another Python, is refused before anything starts."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

from nativekit.cache import user_cache
from packages.machines.tests.namespaced import PLAINTEXT, OtherRoot, cluster
from switch_harness.namespaces import on_the_machines_network
from tools.scripts.fresh_root import FreshRootError, machine_sources

pytestmark = [pytest.mark.netns, pytest.mark.soak]

RELEASE = {"bookworm": "trixie"}.get(
    platform.freedesktop_os_release().get("VERSION_CODENAME", ""), "bookworm"
)
"""Debian 13, or 12 if this is 13."""
_PACKAGES = "opt/packages"


def other_root() -> OtherRoot:
    """Return a root of another release, which debootstrap makes once; skip the test without a mirror."""
    root = user_cache() / "tests" / f"{RELEASE}-dask-{version('distributed')}"
    if not root.exists():
        if shutil.which("debootstrap") is None:
            pytest.skip("needs debootstrap (apt)")
        try:
            source = machine_sources(RELEASE, "debian")[0]
        except FreshRootError as error:
            pytest.skip(str(error))
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root.parent) as folder:
            partial = Path(folder, root.name)
            command = [*on_the_machines_network(), "debootstrap", "--variant=minbase", "--include=python3"]
            subprocess.run([*command, RELEASE, str(partial), source.uri, "sid"], check=True)
            _install(partial)
            partial.rename(root)
    metadata = next(Path(sysconfig.get_path("purelib")).glob("hotline_testbed-*.dist-info"))
    shutil.copytree(metadata, root / _PACKAGES / metadata.name, dirs_exist_ok=True)
    return OtherRoot(root, "/usr/bin/python3", f"/{_PACKAGES}")


def _install(root: Path) -> None:
    """Install what a worker of dask and the survey import, by this machine's pip."""
    names = [f"{name}=={version(name)}" for name in ("dask", "distributed", "msgpack", "tornado")]
    pip = [*on_the_machines_network(), sys.executable, "-m", "pip", "install", "--quiet"]
    options = ["--only-binary=:all:", f"--python-version={python_of(root)}", f"--target={root / _PACKAGES}"]
    subprocess.run([*pip, *options, *names, "numpy"], check=True)


def python_of(root: Path) -> str:
    command = ["chroot", str(root), "python3", "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_machine_with_another_python_is_named_with_both_versions(tmp_path: Path) -> None:
    root = other_root()
    (tmp_path / "runs").mkdir()
    resources = {"alpha": "switch=1 host=1", "beta": "host=1"}
    with cluster(tmp_path, resources, [tmp_path / "runs"], roots={"beta": root}) as machines:
        with machines.run(tables=PLAINTEXT) as run:
            assert run.wait() == 1
        assert not list((tmp_path / "runs").iterdir())
        assert machines.remains() == {}
    assert run.output.splitlines()[-1] == (
        f"hotline: python: expected {platform.python_version()} on all machines, as on this machine, found "
        f"{python_of(root.folder)} on beta"
    )

"""A fresh root has the machine's package mirror and pip's indexes, and nothing is left of it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from switch_harness.namespaces import on_the_machines_network
from switch_harness.waiting import wait_for
from tools.scripts.fresh_root import CHECKOUT, Source, local_indexes, read_sources, sources_of

MIRROR, SECURITY = "http://mirror.example/debian", "http://mirror.example/security"
LINES = f"""
# deb {MIRROR} old main
deb {MIRROR} bookworm main contrib
deb-src {MIRROR} bookworm main
deb [signed-by=/a.gpg arch=amd64] {SECURITY} bookworm-security main
deb http://tools.example stable main
"""
STANZAS = f"""# Stanzas have comments.
Types: deb deb-src
URIs: {MIRROR}
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /a.gpg

Enabled: no
Types: deb
URIs: {MIRROR}
Suites: bookworm-backports
Components: main

Types: deb
URIs: {SECURITY}
Suites:
 bookworm-security
Components: main
"""
FIRST = Source(MIRROR, "bookworm", "main contrib")
LAST = Source(SECURITY, "bookworm-security", "main")


def test_sources_of_apt_are_read_in_both_formats() -> None:
    assert read_sources(LINES) == [FIRST, LAST, Source("http://tools.example", "stable", "main")]
    assert read_sources(STANZAS) == [FIRST, FIRST._replace(suite="bookworm-updates"), LAST]


def test_a_release_gets_its_own_mirrors_of_the_machine() -> None:
    assert [source.line() for source in sources_of("trixie", "bookworm", reversed(read_sources(LINES)))] == [
        f"deb {MIRROR} trixie main contrib",
        f"deb {SECURITY} trixie-security main",
    ]


def test_local_folders_of_pip_s_configuration_are_found(tmp_path: Path) -> None:
    for name in ("index/simple", "wheels"):
        (tmp_path / name).mkdir(parents=True)
    settings = f"""global.extra-index-url='file://{tmp_path}/index/simple http://index.example/simple'
:env:.find-links='{tmp_path}/wheels'
global.cert='{tmp_path}/missing.pem'
"""
    assert local_indexes(settings) == [f"{tmp_path}/index", f"{tmp_path}/wheels"]


@pytest.mark.mininet
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """Here debootstrap has a mount in the root, and a child that does not end by itself."""
    programs, roots, logs = (tmp_path / name for name in ("programs", "roots", "logs"))
    for folder in (programs, roots):
        folder.mkdir()
    script = programs / "debootstrap"
    script.write_text(
        '#!/bin/sh\nwhile [ "$1" != trixie ]; do shift; done\n'
        'mkdir -p "$2/proc"; mount -t proc proc "$2/proc"; setsid sleep 1000 & echo mounted; wait\n'
    )
    script.chmod(0o755)
    command = [sys.executable, str(CHECKOUT / "tools/scripts/fresh_root.py"), "--mirror", MIRROR]
    process = subprocess.Popen(
        [*command, "--folder", str(roots), "--logs", str(logs)],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: any("mounted" in log.read_text() for log in logs.glob("*/*.log")))
    process.send_signal(number)
    # Without a terminal no other process gets the signal.
    assert "interrupted" in process.communicate(timeout=60)[1] and process.returncode == 130
    assert list(roots.iterdir()) == [] and str(roots) not in Path("/proc/mounts").read_text()


VALIDATE = """
apt-get update -q
apt-get install -q -y --no-install-recommends vagrant
vagrant validate --ignore-provider
P4LANG_REPOSITORY=http://example.org vagrant validate --ignore-provider
"""


@pytest.mark.mininet
@pytest.mark.soak
def test_vagrants_script_sets_up_a_fresh_root(tmp_path: Path) -> None:
    """The boxes themselves are not started. Ubuntu has no Vagrant in its newer releases."""
    system = platform.freedesktop_os_release()
    is_debian = system["ID"] == "debian"
    release = ["bookworm"] if is_debian else ["--ubuntu", system["VERSION_CODENAME"]]
    commands = ["tests/harness/vagrant-root", *([f"set -eu\n{VALIDATE}"] if is_debian else [])]
    done = subprocess.run(
        [*on_the_machines_network(), sys.executable, str(CHECKOUT / "tools/scripts/fresh_root.py"),
         "--logs", str(tmp_path), *release, *commands],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(commands)} of {len(commands)} commands succeeded" in done.stdout

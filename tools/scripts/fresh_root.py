"""Make a fresh root of a Debian or Ubuntu release, and run commands in a clean clone of this checkout in it.

`make fresh-root ARGS=bookworm`, or `sudo /usr/bin/python3 tools/scripts/fresh_root.py bookworm`: without ARGS
the release is Debian 13 (trixie). It needs root, debootstrap (from apt), util-linux and 5 GB in --folder, and
the standard library only. Package mirror, proxies and pip's indexes are those of the machine's configuration.

The commands run in mount and PID namespaces of their own, which get the new root by pivot_root: after chroot,
Mininet's hosts, which enter a namespace again, would be back in the machine's root. All mounts are in these
namespaces, so they end with the last process. The network is the machine's: set-up downloads packages.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
# In the machine's network namespace, a run would take another run's interfaces for those of a killed run.
COMMANDS = (
    "make setup",
    "packages/softswitch/tests/switch_harness/own-namespaces make run-topo",
    "make test",
)
# Packages that `git clone` and `make` need.
_PACKAGES = "ca-certificates,git,make"
_CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
# debootstrap's script of all Ubuntu releases, and of Debian's newest, for releases newer than debootstrap.
_UBUNTU_SCRIPT, _DEBIAN_SCRIPT = "gutsy", "sid"
_PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip", "~/.config/pip", "~/.pip")
_PASSED_VARIABLES = re.compile(
    r"PIP_\w+|(https?|no|all)_proxy|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|TERM", re.IGNORECASE
)
_DOWNLOAD_SETTING = re.compile(r"Acquire::(http|https|Check-|Retries|ForceIPv)", re.I)
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_GRACE_S = 30.0  # time for a command to end in order after Ctrl-C
# Times between two lines of progress, on a terminal and in a file, in s.
_TERMINAL_INTERVAL_S, _FILE_INTERVAL_S = 0.2, 60.0
_WIDTH = 78  # of a line of progress
_SHOWN_LINES = 30  # last lines of the log of a command that fails
_MAX_FILE_NAME = 60  # characters of a command in the name of its log
_INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT

# Arguments: a Python, the root, folders and files to bind read-only, `--`, and the command. The shell is the
# first process of its namespaces, so it runs the command as a child. Ubuntu 26.04 has the program
# pivot_root in a package that is not always there, so the C library's function is called. It returns -1 on
# failure, which becomes exit status 1.
_ENTER_SCRIPT = """
set -eu
python=$1
shift
mount --bind "$1" "$1"
cd "$1"
shift
while [ "$1" != -- ]; do
    mount --rbind "$1" "./$1"
    mount -o remount,bind,ro "./$1"
    shift
done
shift
mount --rbind --make-rslave /dev dev
mount -t sysfs none sys
mount -t tmpfs -o mode=755 none run
mount -t proc none proc
mkdir .machine
"$python" -c 'import ctypes, sys; sys.exit(-ctypes.CDLL(None).pivot_root(b".", b".machine"))'
cd /
umount --lazy /.machine
rmdir /.machine
cd /root/hotline
set +e
"$@"
exit $?
"""


class FreshRootError(Exception): ...


class Source(NamedTuple):
    uri: str
    suite: str
    components: str

    def line(self) -> str:
        return f"deb {self.uri} {self.suite} {self.components}"


def read_sources(text: str) -> list[Source]:
    sources = [
        Source(match[1], match[2], match[3].strip())
        for match in re.finditer(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.+)$", text, re.MULTILINE)
    ]
    for stanza in re.split(r"\n\s*\n", text):
        fields = {
            name.lower(): value.split()
            for name, value in re.findall(r"^([\w-]+):(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE)
        }
        if "deb" in fields.get("types", []) and fields.get("enabled") != ["no"]:
            sources += [
                Source(uri, suite, " ".join(fields.get("components", [])))
                for uri in fields.get("uris", [])
                for suite in fields.get("suites", [])
            ]
    return sources


def sources_of(release: str, machine_codename: str, configured_sources: Iterable[Source]) -> list[Source]:
    suites = [machine_codename, f"{machine_codename}-updates", f"{machine_codename}-security"]
    codename_sources = [source for source in configured_sources if source.suite in suites]
    return [
        source._replace(suite=release + source.suite.removeprefix(machine_codename))
        for source in sorted(codename_sources, key=lambda source: suites.index(source.suite))
    ]


def machine_sources(release: str, distribution: str) -> list[Source]:
    system = platform.freedesktop_os_release()
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.[ls]*"))]
    texts = [file.read_text() for file in files if file.is_file() and file.suffix in (".list", ".sources")]
    configured_sources = [source for text in texts for source in read_sources(text)]
    if system["ID"] == distribution:
        release_sources = sources_of(release, system.get("VERSION_CODENAME", ""), configured_sources)
        if release_sources and release_sources[0].suite == release:
            return release_sources
    raise FreshRootError(f"apt's configuration names no mirror of {distribution} here: expected --mirror")


def apt_settings() -> str:
    config_dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    return "".join(f"{line}\n" for line in config_dump.splitlines() if _DOWNLOAD_SETTING.match(line))


def local_indexes(pip_settings: str) -> list[str]:
    # A local index has links to files in its parent folder, so that folder is returned.
    indexes = [str(Path(path).parent) for path in re.findall(r"file://(/[^\s']+)", pip_settings)]
    # Other absolute paths are folders of packages (find-links), certificates and constraints.
    paths = [*indexes, *re.findall(r"(?<=[\s'=])(/[^\s']+)", pip_settings)]
    return list(dict.fromkeys(path for path in paths if Path(path).exists()))


class Progress:
    def __init__(self, name: str, log: Path, is_terminal: bool) -> None:
        self._name, self._log, self._is_terminal = name, log, is_terminal
        self._last_line = ""
        # Instead of Thread.join: if Ctrl-C interrupts it, Python before 3.13 considers the thread ended.
        self._end_event = Event()
        self._start_s = time.monotonic()

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
        """Run a command that starts namespaces, and return its status; after Ctrl-C no process remains."""
        print(f"{self._name} (log: {self._log})", flush=True)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        assert process.stdout is not None
        Thread(target=self._read, args=(process.stdout,), daemon=True).start()
        try:
            self._show_progress(None)
        except KeyboardInterrupt:
            # A terminal sends SIGINT to the command, too.
            with suppress(KeyboardInterrupt):
                self._show_progress(_GRACE_S if self._is_terminal else 0.0)
            _kill_namespace(process)
            raise
        finally:
            process.wait()
            print("\r\x1b[K" if self._is_terminal else "", end="")
        seconds = time.monotonic() - self._start_s
        outcome = "done" if process.returncode == 0 else f"failed with status {process.returncode}"
        print(f"  {outcome} after {seconds:.0f} s", flush=True)
        if process.returncode:
            print(
                *self._log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:], sep="\n", file=sys.stderr
            )
        return process.returncode

    def _read(self, stream: BinaryIO) -> None:
        with self._log.open("wb") as log:
            for line in stream:
                log.write(line)
                log.flush()
                text = line.decode(errors="replace").rstrip().rpartition("\r")[2]
                self._last_line = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text) or self._last_line
        self._end_event.set()

    def _show_progress(self, timeout_s: float | None) -> None:
        interval_s = _TERMINAL_INTERVAL_S if self._is_terminal else _FILE_INTERVAL_S
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._end_event.is_set() and (deadline_s is None or time.monotonic() < deadline_s):
            self._end_event.wait(
                interval_s if deadline_s is None else min(interval_s, max(0.0, deadline_s - time.monotonic()))
            )
            line = f"  {time.monotonic() - self._start_s:3.0f} s  {self._last_line}"[:_WIDTH]
            if self._is_terminal:
                print(f"\r\x1b[K{line}", end="", flush=True)
            elif not self._end_event.is_set():
                print(line, flush=True)


def _kill_namespace(process: subprocess.Popen[bytes]) -> None:
    """Kill the first process of a namespace: the kernel kills all others before `unshare` ends."""
    first_children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in first_children or [str(process.pid)]:
        os.kill(int(child), signal.SIGKILL)


class FreshRoot:
    def __init__(self, root: Path, logs: Path) -> None:
        self._root, self._logs = root, logs
        self._step_count = 0
        self._is_terminal = sys.stdout.isatty()
        settings = subprocess.run(
            ["/usr/bin/env", "python3", "-m", "pip", "config", "list"], capture_output=True, text=True
        ).stdout
        bundles = [_CA_BUNDLE] if Path(_CA_BUNDLE).exists() else []
        self._read_only = [path for path in local_indexes(settings) if path not in bundles] + bundles

    def make(self, release: str, sources: Sequence[Source], is_ubuntu: bool, keyring: Path | None) -> None:
        components = ",".join(sources[0].components.split())
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", f"--components={components}"]
        if keyring is not None:
            command.append(f"--keyring={keyring}")
        command += [release, str(self._root), sources[0].uri, _UBUNTU_SCRIPT if is_ubuntu else _DEBIAN_SCRIPT]
        if self._run_step(f"make a root of {release}", [*_NAMESPACES, "--mount-proc", *command]):
            raise FreshRootError(f"debootstrap failed: see {self._logs}")
        apt = self._root / "etc/apt"
        (apt / "sources.list").write_text("".join(f"{source.line()}\n" for source in sources))
        (apt / "apt.conf.d/90machine").write_text(apt_settings())
        for name in ("hosts", "resolv.conf"):
            shutil.copyfile(f"/etc/{name}", self._root / "etc" / name)
        for name in _PIP_FILES:
            self._copy_if_exists(Path(name).expanduser(), self._root / name.replace("~", "/root").lstrip("/"))
        for path in self._read_only:
            self._make_mount_point(path)
        subprocess.run(
            ["git", "-c", f"safe.directory={CHECKOUT}", "clone", "--quiet", "--no-local", CHECKOUT,
             self._root / "root/hotline"], check=True,
        )  # fmt: skip

    def run(self, command: str) -> int:
        environment = {name: value for name, value in os.environ.items() if _PASSED_VARIABLES.fullmatch(name)}
        environment |= {
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        enter_command = ["sh", "-c", _ENTER_SCRIPT, "sh", sys.executable, str(self._root), *self._read_only]
        return self._run_step(command, [*_NAMESPACES, *enter_command, "--", "sh", "-c", command], environment)

    def _run_step(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> int:
        self._step_count += 1
        file = re.sub(r"[^A-Za-z0-9=]+", "-", name.rpartition("/")[2]).strip("-")[:_MAX_FILE_NAME]
        log = self._logs / f"{self._step_count}-{file}.log"
        return Progress(name, log, self._is_terminal).run(command, environment)

    def _copy_if_exists(self, path: Path, target: Path) -> None:
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        elif path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def _make_mount_point(self, path: str) -> None:
        point = self._root / path.lstrip("/")
        if Path(path).is_dir():
            point.mkdir(parents=True, exist_ok=True)
        elif not point.exists():
            point.parent.mkdir(parents=True, exist_ok=True)
            point.touch()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all commands succeed, 1 if one fails, 2 if the root cannot be made, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        description="Run commands in a fresh root of a Debian or Ubuntu release."
    )
    parser.add_argument("release", nargs="?", default="trixie", help="codename (trixie)")
    parser.add_argument("commands", nargs="*", default=COMMANDS, help=f"default: {', then '.join(COMMANDS)}")
    parser.add_argument("--mirror", help="package mirror, instead of the one in apt's configuration")
    parser.add_argument("--ubuntu", action="store_true", help="the release is one of Ubuntu")
    parser.add_argument("--keyring", type=Path, help="keys of the mirror, instead of debootstrap's choice")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="folder of the root (/var/tmp)")
    parser.add_argument(
        "--logs", type=Path, default=CHECKOUT / "build/fresh-root", help="log folder (build/fresh-root)"
    )
    parser.add_argument("--keep", action="store_true", help="do not remove the root at the end")
    options = parser.parse_args(arguments)
    logs = options.logs.absolute() / f"{options.release}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    folder: Path | None = None
    try:
        if os.geteuid() != 0:
            raise FreshRootError("expected to be run as root")
        for program in ("debootstrap", "unshare", "git"):
            if shutil.which(program) is None:
                raise FreshRootError(f"expected the program {program}: install it with apt")
        if options.mirror:
            components = "main universe" if options.ubuntu else "main"
            sources = [Source(options.mirror, options.release, components)]
        else:
            sources = machine_sources(options.release, "ubuntu" if options.ubuntu else "debian")
        logs.mkdir(parents=True)
        folder = Path(tempfile.mkdtemp(prefix="hotline-fresh-root-", dir=options.folder))
        root = FreshRoot(folder / options.release, logs)
        root.make(options.release, sources, options.ubuntu, options.keyring)
        failed_commands = [command for command in options.commands if root.run(command) != 0]
    except FreshRootError as error:
        print(f"fresh_root: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"fresh_root: interrupted; logs: {logs}", file=sys.stderr)
        return _INTERRUPTED
    finally:
        if folder is not None and options.keep:
            print(f"root: {folder}")
        elif folder is not None:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            print(f"remove the root in {folder}", flush=True)
            subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)
    total = len(options.commands)
    print(f"{total - len(failed_commands)} of {total} commands succeeded; logs: {logs}")
    return 1 if failed_commands else 0


if __name__ == "__main__":
    sys.exit(main())

"""Take from this process what macOS and Windows lack, so that code fails which needs it.

Packages of others are imported before: on those systems they use other means. What is taken cannot be given
back, so this is for processes of a test alone.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGES = (
    "click",
    "google.protobuf",
    "grpc",
    "llvmlite.binding",
    "numba",
    "numpy",
    "pytest",
    "scapy.layers.inet",
)
POSIX_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
"""Modules that Windows lacks."""
LINUX_NAMES: dict[ModuleType, tuple[str, ...]] = {
    os: ("eventfd", "memfd_create", "pidfd_open", "sched_getaffinity", "sched_setaffinity"),
    select: ("epoll",),
    socket: ("AF_NETLINK", "AF_PACKET"),
}
POSIX_NAMES: dict[ModuleType, tuple[str, ...]] = {
    os: ("fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups", "getuid", "setsid", "sysconf",
         "uname", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"),
    select: ("poll",),
    signal: ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU"),
}  # fmt: skip
LINUX_FUNCTIONS = frozenset({
    "__errno_location", "epoll_create1", "epoll_ctl", "epoll_wait", "mount", "ppoll", "prctl", "recvmmsg",
    "sendmmsg", "setns", "syscall", "timerfd_create", "timerfd_settime", "unshare",
})  # fmt: skip
"""Functions of Linux's C library; `syscall` is how BPF is reached."""
LINUX_FOLDERS = ("/dev/net", "/proc", "/sys")


def imitate_macos() -> None:
    """Refuse what Linux alone has, and also `fork` and the modules of POSIX."""
    _imitate(LINUX_NAMES, {os: ("fork", "forkpty")}, has_c_library=True)


def imitate_windows() -> None:
    """Refuse all that POSIX has beyond Windows; the C library cannot be opened by the name None."""
    _imitate(LINUX_NAMES, POSIX_NAMES, has_c_library=False)


def _imitate(*names: dict[ModuleType, tuple[str, ...]], has_c_library: bool) -> None:
    for package in PACKAGES:
        importlib.import_module(package)
    for module, taken in (each for table in names for each in table.items()):
        for name in taken:
            if hasattr(module, name):
                delattr(module, name)
    sys.meta_path.insert(0, _Finder())
    for name in POSIX_MODULES:
        sys.modules.pop(name, None)
    sys.addaudithook(_refuse_linux_files)
    ctypes.CDLL = _LibraryOfMacos if has_c_library else _LibraryOfWindows  # type: ignore[misc]


class _Finder:
    """Finder of modules that refuses those of POSIX."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in POSIX_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _refuse_linux_files(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if path.startswith(LINUX_FOLDERS):
            raise FileNotFoundError(2, "No such file or directory", path)


class _LibraryOfMacos(ctypes.CDLL):
    def __getitem__(self, name: str) -> object:  # type: ignore[override]
        if name in LINUX_FUNCTIONS:
            raise AttributeError(f"dlsym: symbol not found: {name}")
        return super().__getitem__(name)

    def __getattr__(self, name: str) -> object:  # type: ignore[override]
        if name in LINUX_FUNCTIONS:
            raise AttributeError(f"dlsym: symbol not found: {name}")
        return super().__getattr__(name)


class _LibraryOfWindows(ctypes.CDLL):
    def __init__(self, name: str | None, *arguments: object, **options: object) -> None:
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        super().__init__(name, *arguments, **options)  # type: ignore[arg-type]


SYSTEMS = {"macos": imitate_macos, "windows": imitate_windows}


def selected(arguments: Iterable[str]) -> None:
    """Imitate the system that the first argument of a script names."""
    SYSTEMS[next(iter(arguments))]()

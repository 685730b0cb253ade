"""Verbs that need no Linux: they run where the names of Linux are missing, as on macOS.

What differs without a name, such as the meaning of a constant, is not seen here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

PROGRAM = r"""
import importlib.abc, mmap, os, re, select, selectors, signal, socket, sys, time

LINUX = {
    os: "sched_(?!yield)|memfd_|eventfd|EFD_|MFD_|setns|unshare|CLONE_|pidfd_|splice|SPLICE_|posix_fa"
    "|getrandom|GRND_|copy_file_range|[gs]etres[ug]id|.*xattr|XATTR_|P_PIDFD",
    select: "epoll|EPOLL",
    signal: "sigtimedwait|sigwaitinfo|SIGRT|SIGPWR|SIGSTKFLT|SIGPOLL|pidfd_",
    socket: "AF_(PACKET|NETLINK|CAN|VSOCK|TIPC|ALG|QIPCRTR|RDS)|PACKET_|NETLINK_|CAN_|SOCK_(NONBLOCK|CLOEXEC)"
    "|SO_(BINDTODEVICE|MARK|DOMAIN|PASSCRED)|MSG_(ERRQUEUE|MORE|CONFIRM)|TCP_(QUICKACK|CORK|DEFER_ACCEPT)",
    mmap: "MADV_(HUGE|NOHUGE|DONTFORK|DOFORK|REMOVE|MERGE|UNMERGE|HWPOISON|DONTDUMP|DODUMP)"
    "|MAP_(POPULATE|STACK|DENYWRITE|EXECUTABLE)",
    time: "CLOCK_(BOOTTIME|TAI)",
}
for module, names in LINUX.items():
    for name in [name for name in vars(module) if re.match(names, name)]:
        delattr(module, name)
selectors.DefaultSelector = selectors.PollSelector
os.process_cpu_count = os.cpu_count  # from Python 3.13 on; Linux's calls what is missing


class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if re.match(r"(mininet|pyroute2|spwd|ossaudiodev|topologies|softswitch\.(kernel|ports))\b", name):
            raise ModuleNotFoundError(f"no module named {name}", name=name)


sys.meta_path.insert(0, Missing())
compiled = set()


def audit(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        if arguments[0].startswith(("/proc/", "/sys/", "/etc/os-release", "/usr/lib/os-release")):
            raise FileNotFoundError(2, "No such file or directory", arguments[0])
        if "/compiled-" in arguments[0] and ".nbc" in arguments[0]:
            compiled.add(re.sub(r"/\.?([^/]*\.nbc)[^/]*$", r"/\1", arguments[0]))  # files are renamed


# They have builds for other systems, and find out which one they are on.
import matplotlib.figure, numba, polars
import llvmlite.binding as llvm


def load(name):
    raise RuntimeError(f"{name}: no such library")


llvm.load_library_permanently = load
sys.addaudithook(audit)

from pathlib import Path

from click.testing import CliRunner

from hotline.cli.commands import hotline as verbs

for verb in (
    ("hotset", "curve", "log.csv"),
    ("policies", "miss-ratio", "log.csv"),
    ("policies", "log.csv", "--only", "lru,top-k,belady", "--sizes", "10", "--into", "policies"),
    ("answer", "--workers", "2", "--servers", "1", "--data", "log.csv", "--top-k", "10"),
):
    done = CliRunner().invoke(verbs, verb)
    assert done.exit_code == 0, (verb, done.output, done.exception)

import hotline

for found in (
    hotline.curve("log.csv"),
    hotline.miss_ratio("log.csv", sample=0.9),
    hotline.study("log.csv", policies=("lru", "lirs"), sizes=(10,), into=Path("study")),
    hotline.answer(workers=4, servers=1, racks=2, data="log.csv", top_k=10, dim=1),
):
    assert found.plot() and found._repr_html_()

# Compiled code calls the C library, which elsewhere has not all of Linux's functions.
assert len(compiled) > 2, compiled
missing = ("__errno_location", "epoll_wait", "recvmmsg", "sendmmsg", "ppoll", "timerfd_settime")
for file in compiled:
    code = open(file, "rb").read()
    assert not [name for name in missing if name.encode() in code], file
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the names are missing")
def test_verbs_that_need_no_linux_run_without_the_names_of_linux(tmp_path: Path) -> None:
    step = np.repeat(np.arange(100), 11)
    keys = np.where(np.arange(1_100) % 11 < 10, np.arange(1_100) % 11, 1_000 + step)
    pl.DataFrame({"iteration": step, "worker": 1, "key": keys}).write_csv(tmp_path / "log.csv")
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

"""Receive packet steering: one CPU on which the kernel's program runs, whoever sends the frames.

Without it a veth's frame is processed on its sender's. The kernel keeps the setting with the interface, so it
is put back at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from softswitch.ports.sockets import PortError

Masks = dict[str, str]
"""File of an rx queue -> the CPUs that it had."""
INTERFACES = Path("/sys/class/net")
_ONLINE = Path("/sys/devices/system/cpu/online")


def check_cpu(cpu: int, online: str | None = None) -> None:
    """Raise PortError where there is no such CPU, or it is off; `online` is as in the kernel's file."""
    told = (_ONLINE.read_text() if online is None else online).strip()
    ranges = [part.partition("-") for part in told.split(",")]
    if not any(int(first) <= cpu <= int(last or first) for first, _, last in ranges):
        raise PortError(f"--rps-cpu {cpu}: there is no such CPU here; online: {told}")


def mask_of(cpu: int) -> str:
    """A CPU as `rps_cpus` has it: hexadecimal, in groups of 32 bits."""
    words = [1 << cpu % 32] + [0] * (cpu // 32)
    return ",".join(f"{word:08x}" for word in words)


def steer(names: Iterable[str], cpu: int, interfaces: Path | None = None) -> Masks:
    """Have what comes in by interfaces processed on a CPU; what was so before, for `put_back`.

    Raises PortError where it cannot be had, and nothing is changed then.
    """
    before: Masks = {}
    try:
        for name in names:
            for file in _queues(name, interfaces or INTERFACES):
                before[str(file)] = file.read_text().strip()
                file.write_text(mask_of(cpu))
    except OSError as error:
        put_back(before)
        raise PortError(
            f"--rps-cpu {cpu}: {error.filename}: {error.strerror}; --datapath sockets needs no such file"
        ) from None
    return before


def put_back(before: Masks) -> None:
    """Have interfaces that are still there as they were."""
    for file, mask in before.items():
        with suppress(OSError):
            Path(file).write_text(mask)


def _queues(name: str, interfaces: Path) -> list[Path]:
    queues = interfaces / name / "queues"
    if not queues.is_dir():
        why = f"{interfaces} does not show interface {name}: it is of another network namespace"
        raise FileNotFoundError(0, why, str(queues))
    return [queue / "rps_cpus" for queue in sorted(queues.glob("rx-*"))]

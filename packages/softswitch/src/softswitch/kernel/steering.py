"""Receive packet steering: run the program on one CPU, not the sender's, until the masks are restored."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from softswitch.errors import PortError

Masks = dict[str, str]
"""Previous CPU mask by the path of an rx queue's `rps_cpus` file."""
INTERFACES = Path("/sys/class/net")
_ONLINE = Path("/sys/devices/system/cpu/online")


def check_cpu(cpu: int, online: str | None = None) -> None:
    """Raise PortError if a CPU does not exist or is offline; `online` has the format of the kernel's file."""
    available = (_ONLINE.read_text() if online is None else online).strip()
    ranges = [part.partition("-") for part in available.split(",")]
    if not any(int(first) <= cpu <= int(last or first) for first, _, last in ranges):
        raise PortError(f"--rps-cpu {cpu}: there is no such CPU here; online: {available}")


def cpu_mask(cpu: int) -> str:
    """Return a CPU in the format of `rps_cpus`: a hexadecimal mask in groups of 32 bits."""
    words = [1 << cpu % 32] + [0] * (cpu // 32)
    return ",".join(f"{word:08x}" for word in words)


def steer(names: Iterable[str], cpu: int, interfaces: Path | None = None) -> Masks:
    """Process frames of interfaces on one CPU; return the previous masks. Restores them if it fails."""
    previous_masks: Masks = {}
    try:
        for name in names:
            for mask_file in _rps_files(name, interfaces or INTERFACES):
                previous_masks[str(mask_file)] = mask_file.read_text().strip()
                mask_file.write_text(cpu_mask(cpu))
    except OSError as error:
        restore_masks(previous_masks)
        raise PortError(
            f"--rps-cpu {cpu}: {error.filename}: {error.strerror}; --datapath sockets needs no such file"
        ) from None
    return previous_masks


def restore_masks(masks: Masks) -> None:
    for file, mask in masks.items():
        with suppress(OSError):
            Path(file).write_text(mask)


def _rps_files(name: str, interfaces: Path) -> list[Path]:
    queues = interfaces / name / "queues"
    if not queues.is_dir():
        reason = f"{interfaces} does not show interface {name}: it is in another network namespace"
        raise FileNotFoundError(0, reason, str(queues))  # any errno: `strerror` is the reason
    return [queue / "rps_cpus" for queue in sorted(queues.glob("rx-*"))]

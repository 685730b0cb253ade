"""The folder of `--pin`: the datapath continues without the process, and the next process resumes it.

lock            locked by the running switch; contains its process ID
bpf/switch      on a dedicated bpffs: the program array, and link and program of each port
bpf/N           the maps of generation N: a pipeline and its control plane
N               files of generation N's control plane (`p4runtime.journal`)
current         N of the pipeline that processes packets
*.json          values of the ports (`Pins.save`)
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

from nativekit.files import replace_file
from softswitch import libc
from softswitch.cache import source_digest
from softswitch.errors import KernelError
from softswitch.kernel import bpf
from softswitch.kernel.devices import PROMISCUOUS, open_tap, set_flag, set_persistent
from softswitch.kernel.generation import OBJECTS, Generation
from softswitch.kernel.steering import restore_masks

CPU, STEERING, _SWITCH = "cpu", "steered", "switch"
"""Names of saved values: the CPU port's device, `steering.Masks`, and the switch's identity."""


class Pins:
    """The folder, created if absent and locked until `close`. Raises KernelError if that is impossible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last_number = 0
        with contextlib.ExitStack() as cleanup:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise KernelError(f"--pin {folder}: {error.strerror}") from None
            cleanup.callback(bpf.close, self._lock)
            self._acquire_lock()
            self._objects = folder / OBJECTS
            self._switch = self._objects / "switch"
            self._mount()
            current_number = self._current_number()
            self.pinned = (
                None if current_number is None else Generation(folder, current_number, is_restored=True)
            )
            self._remove_other_generations(current_number)
            cleanup.pop_all()

    def _acquire_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder_pid = os.pread(self._lock, 32, 0).decode() or "?"
            raise KernelError(
                f"--pin {self.folder}: in use by the switch with process ID {holder_pid}"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _mount(self) -> None:
        self._objects.mkdir(exist_ok=True)
        if os.path.ismount(self._objects):
            return
        try:
            libc.call("mount", b"bpf", os.fsencode(self._objects), b"bpf", 0, b"mode=0700")
        except OSError as error:
            text = f"--pin {self.folder}: mount bpffs on {self._objects}: {error.strerror}"
            raise KernelError(text) from None

    def _current_number(self) -> int | None:
        """Return the number of the current generation; None if there is none, as after a reboot."""
        with contextlib.suppress(OSError, ValueError):
            number = int((self.folder / "current").read_text())
            if (self._objects / str(number)).is_dir():
                return number
        return None

    def _remove_other_generations(self, current_number: int | None) -> None:
        for number in self._numbers() - {current_number or 0}:  # numbers begin at 1
            Generation(self.folder, number, is_restored=True).remove()
        if current_number is None:
            self._release_interfaces()
            shutil.rmtree(self._switch, ignore_errors=True)
            for path in self.folder.glob("*.json"):
                path.unlink()
        self._switch.mkdir(exist_ok=True)

    def _release_interfaces(self) -> None:
        for name in (self.identity() or {}).get("ports", {}).values():
            with contextlib.suppress(OSError):  # the interface no longer exists
                set_flag(name, PROMISCUOUS, is_on=False)
        restore_masks(self.load(STEERING) or {})
        if (cpu := self.load(CPU)) is not None:
            with contextlib.suppress(OSError):
                descriptor, _ = open_tap(cpu)
                set_persistent(descriptor, is_persistent=False)
                bpf.close(descriptor)

    def _numbers(self) -> set[int]:
        paths = [*self.folder.iterdir(), *self._objects.iterdir()]
        return {int(path.name) for path in paths if path.name.isdigit()}

    def check(self, **options: object) -> None:
        """Save version and options, or raise KernelError if the switch that pinned the folder had others."""
        identity = {"softswitch": source_digest(), **options}
        pinned = self.identity()
        if pinned is None:
            self.save(_SWITCH, identity)
            return
        for name, value in json.loads(json.dumps(identity)).items():
            if pinned.get(name) != value:
                pinned_option, current_option = (f"{name} {option}" for option in (pinned.get(name), value))
                difference = (
                    "another version of softswitch"
                    if name == "softswitch"
                    else f"{pinned_option}, not {current_option}"
                )
                raise KernelError(
                    f"--pin {self.folder}: it was pinned with {difference}; "
                    f"`--unpin {self.folder}` removes it"
                )

    def identity(self) -> dict[str, Any] | None:  # JSON
        identity: dict[str, Any] | None = self.load(_SWITCH)
        return identity

    def begin(self) -> Generation:
        """Create a generation; its number is new, since a removed generation's arena may still be mapped."""
        self._last_number = 1 + max({self._last_number, *self._numbers()})
        return Generation(self.folder, self._last_number, is_restored=False)

    def commit(self, generation: Generation) -> None:
        self._write("current", str(generation.number))
        generation.is_current = True
        self._remove_other_generations(generation.number)
        self.pinned = generation

    def open_object(self, name: str) -> int | None:
        path = self._switch / name
        return bpf.open_pinned(path) if path.exists() else None

    def pin(self, name: str, descriptor: int) -> None:
        path = self._switch / name
        path.unlink(missing_ok=True)
        bpf.pin(path, descriptor)

    def save(self, name: str, value: object) -> None:
        self._write(f"{name}.json", json.dumps(value))

    def load(self, name: str) -> Any:  # JSON
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.folder / f"{name}.json").read_text())
        return None

    def _write(self, name: str, text: str) -> None:
        replace_file(self.folder / name, text.encode())

    def close(self) -> None:
        """Unlock the folder and leave everything pinned; closing twice is harmless."""
        bpf.close(self._lock)

    def remove(self) -> None:
        self._release_interfaces()
        try:
            libc.call("umount2", os.fsencode(self._objects), 0)
        except OSError as error:
            text = f"--unpin {self.folder}: unmount {self._objects}: {error.strerror}"
            raise KernelError(text) from None
        shutil.rmtree(self.folder)
        self.close()


def unpin(folder: Path) -> None:
    """Remove a switch's pinned objects and folder; raises KernelError if none exist, or the switch runs."""
    if not (folder / "lock").exists():
        raise KernelError(f"--unpin {folder}: no switch has pinned anything there")
    with contextlib.closing(Pins(folder)) as pins:
        pins.remove()

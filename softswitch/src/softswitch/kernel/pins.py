"""What outlives the process: with it packets go on, and the next process goes on with it.

lock            held by the switch that runs; its process
bpf/switch      in a bpffs of its own: the program array, and of each port the link and its program
bpf/N           the maps of generation N: a pipeline and its control plane
N               what the control plane keeps of it in files (`p4runtime.kept`)
current         N of the pipeline that packets meet
*.json          what the ports are, and keep beside (`Pins.remember`)
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

from softswitch.cache import source_digest
from softswitch.errors import KernelError
from softswitch.kernel import bpf
from softswitch.kernel.devices import PROMISCUOUS, keep_tap, open_tap, set_flag
from softswitch.kernel.generation import OBJECTS, Generation
from softswitch.kernel.steering import put_back

CPU, STEERED, _SWITCH = "cpu", "steered", "switch"
"""Under which names things are remembered: the CPU port's device, `steering.Masks`, what the switch is."""
_libc = ctypes.CDLL(None, use_errno=True)


class Pins:
    """The folder, made if it is not there, and locked until `close`.

    Raises KernelError where it is another switch's, or cannot be had.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = 0
        with contextlib.ExitStack() as undo:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise KernelError(f"--pin {folder}: {error.strerror}") from None
            undo.callback(bpf.close, self._lock)
            self._take_lock()
            self._objects = folder / OBJECTS
            self._switch = self._objects / "switch"
            self._mount()
            current = self._current()
            self.kept = None if current is None else Generation(folder, current, is_kept=True)
            """What to go on with."""
            self._tidy(current)
            undo.pop_all()

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 32, 0).decode() or "?"
            raise KernelError(f"--pin {self.folder}: the switch of process {holder} runs with it") from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _mount(self) -> None:
        self._objects.mkdir(exist_ok=True)
        if os.path.ismount(self._objects):
            return
        if _libc.mount(b"bpf", os.fsencode(self._objects), b"bpf", 0, b"mode=0700"):
            reason = os.strerror(ctypes.get_errno())
            raise KernelError(f"--pin {self.folder}: mount bpffs on {self._objects}: {reason}")

    def _current(self) -> int | None:
        """The generation that packets meet; none where the machine has been started anew since."""
        with contextlib.suppress(OSError, ValueError):
            number = int((self.folder / "current").read_text())
            if (self._objects / str(number)).is_dir():
                return number
        return None

    def _tidy(self, current: int | None) -> None:
        """Remove the generations that are not the current one, and all where there is none."""
        for number in self._numbers() - {current or 0}:
            Generation(self.folder, number, is_kept=True).remove()
        if current is None:
            self._let_go_of_interfaces()
            shutil.rmtree(self._switch, ignore_errors=True)
            for path in self.folder.glob("*.json"):
                path.unlink()
        self._switch.mkdir(exist_ok=True)

    def _let_go_of_interfaces(self) -> None:
        """What is kept of them and is no BPF object."""
        for name in (self.fixed() or {}).get("ports", {}).values():
            with contextlib.suppress(OSError):  # it has gone
                set_flag(name, PROMISCUOUS, is_on=False)
        put_back(self.recall(STEERED) or {})
        if (cpu := self.recall(CPU)) is not None:
            with contextlib.suppress(OSError):
                descriptor, _ = open_tap(cpu)
                keep_tap(descriptor, is_kept=False)
                bpf.close(descriptor)

    def _numbers(self) -> set[int]:
        found = [*self.folder.iterdir(), *self._objects.iterdir()]
        return {int(path.name) for path in found if path.name.isdigit()}

    def check(self, **fixed: object) -> None:
        """That the switch is what it was when this was pinned; KernelError names the first difference."""
        wanted = {"softswitch": source_digest(), **fixed}
        kept = self.fixed()
        if kept is None:
            self.remember(_SWITCH, wanted)
            return
        for name, value in json.loads(json.dumps(wanted)).items():
            if kept.get(name) != value:
                was, now = (f"{name} {shown}" for shown in (kept.get(name), value))
                what = "another version of softswitch" if name == "softswitch" else f"{was}, not {now}"
                raise KernelError(
                    f"--pin {self.folder}: it was pinned with {what}; `--unpin {self.folder}` gives it up"
                )

    def fixed(self) -> dict[str, Any] | None:
        """What `check` was first called with; None where it never was."""
        found: dict[str, Any] | None = self.recall(_SWITCH)
        return found

    def begin(self) -> Generation:
        """A new generation; where the arena of one that has gone was, it may still be mapped."""
        self._last = 1 + max({self._last, *self._numbers()})
        return Generation(self.folder, self._last, is_kept=False)

    def commit(self, generation: Generation) -> None:
        """Packets meet this one from now on; the others go."""
        self._write("current", str(generation.number))
        generation.is_current = True
        self._tidy(generation.number)
        self.kept = generation

    def objects(self, name: str) -> int | None:
        """File descriptor of what is pinned under a name, if anything is."""
        path = self._switch / name
        return bpf.get(path) if path.exists() else None

    def pin(self, name: str, descriptor: int) -> None:
        """Pin a BPF object in place of what has the name."""
        path = self._switch / name
        path.unlink(missing_ok=True)
        bpf.pin(path, descriptor)

    def remember(self, name: str, value: object) -> None:
        """Keep a value that JSON can tell."""
        self._write(f"{name}.json", json.dumps(value))

    def recall(self, name: str) -> Any:
        """The value, or None."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.folder / f"{name}.json").read_text())
        return None

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all."""
        new = self.folder / f".{name}"
        new.write_text(text)
        os.replace(new, self.folder / name)

    def close(self) -> None:
        """Leave all of it to the next; harmless when repeated."""
        bpf.close(self._lock)

    def remove(self) -> None:
        """Give all of it up: packets stop, and nothing is left."""
        self._let_go_of_interfaces()
        if _libc.umount2(os.fsencode(self._objects), 0):
            reason = os.strerror(ctypes.get_errno())
            raise KernelError(f"--unpin {self.folder}: unmount {self._objects}: {reason}")
        shutil.rmtree(self.folder)
        self.close()


def unpin(folder: Path) -> None:
    """Give up what a switch has pinned in a folder; KernelError where none has, or one runs with it."""
    if not (folder / "lock").exists():
        raise KernelError(f"--unpin {folder}: no switch has pinned anything there")
    with contextlib.closing(Pins(folder)) as pins:
        pins.remove()

"""What files contain when a process that maps them is killed: after each instruction, or at one of them.

`machine_states` runs a compiled function in a child, one instruction at a time, by ptrace: a process that is
killed there leaves the files as they are at that moment. `source_states` runs Python functions, or compiled
ones as plain Python, in this process, and looks at the files after each operation of the byte code: it needs
no ptrace, but cannot see the order of the compiled stores.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

Contents = tuple[bytes, ...]
"""The content of each file."""

_TRACEME, _PEEK, _POKE, _CONT, _SINGLESTEP, _SYSCALL = 0, 1, 4, 7, 9, 24
_GETREGSET, _SETREGSET, _SETOPTIONS, _EXITKILL = 0x4204, 0x4205, 0x4200, 0x100000
_PRSTATUS = 1


class _Machine(NamedTuple):
    """What differs between machines: places in the register set of ptrace, and the breakpoint instruction."""

    pc: int  # program counter
    sp: int  # stack pointer
    breakpoint: bytes
    pc_after_breakpoint: int  # distance of the program counter from the breakpoint's address when it stops
    return_register: int | None  # register with the return address; None: it is on the stack


_MACHINES = {
    "x86_64": _Machine(16, 19, b"\xcc", 1, None),
    "aarch64": _Machine(32, 31, b"\x00\x00\x20\xd4", 0, 30),
}
_WORDS = 34  # of a register set: x86-64 has 27, AArch64 34

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long


class CannotTrace(Exception):
    """The machine, or a policy of the system, does not let a process trace its child."""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    ctypes.set_errno(0)
    result: int = _LIBC.ptrace(request, pid, address, data)
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"ptrace request {request}: {os.strerror(ctypes.get_errno())}")
    return result


class _Registers:
    def __init__(self, pid: int) -> None:
        self.words = (ctypes.c_uint64 * _WORDS)()
        self._pid, self._iovec = pid, _Iovec(ctypes.addressof(self.words), ctypes.sizeof(self.words))

    def read(self) -> None:
        self._iovec.length = ctypes.sizeof(self.words)
        _ptrace(_GETREGSET, self._pid, _PRSTATUS, ctypes.addressof(self._iovec))

    def write(self) -> None:
        _ptrace(_SETREGSET, self._pid, _PRSTATUS, ctypes.addressof(self._iovec))


class Tracee:
    """A child that calls a function of Python and ends; it stops before the call."""

    def __init__(self, call: Callable[[], object]) -> None:
        if platform.machine() not in _MACHINES:
            raise CannotTrace(f"expected a machine of {', '.join(_MACHINES)}, got {platform.machine()}")
        self._machine = _MACHINES[platform.machine()]
        with warnings.catch_warnings():
            # Threads of other tests may exist, but the child calls only the function and ends.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            _run_child(call)
        self.exit_status: int | None = None
        self.wait()
        if self.exit_status is not None:
            raise CannotTrace(
                "ptrace(PTRACE_TRACEME) is refused: these tests need a system where a process may trace its "
                "children (in a container: the capability SYS_PTRACE or another seccomp profile)"
            )
        _ptrace(_SETOPTIONS, self.pid, 0, _EXITKILL)

    def wait(self) -> int:
        """Wait for the next stop, and return its signal; 0 if the child has ended."""
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.exit_status = os.waitstatus_to_exitcode(status)
        return 0

    def resume(self, request: int = _CONT) -> int:
        _ptrace(request, self.pid)
        return self.wait()

    def kill(self) -> None:
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGKILL)
            while self.exit_status is None:
                self.wait()

    def instructions(self, addresses: Collection[int]) -> Iterator[None]:
        """Run to the end; yield after each instruction of the functions at `addresses`, and of callees."""
        machine, registers = self._machine, _Registers(self.pid)
        originals = {address: _ptrace(_PEEK, self.pid, address) & 2**64 - 1 for address in addresses}
        mask = 2 ** (8 * len(machine.breakpoint)) - 1
        for address, word in originals.items():
            self._set_breakpoint(address, word, mask)
        while self.resume() == signal.SIGTRAP:
            registers.read()
            address = registers.words[machine.pc] - machine.pc_after_breakpoint
            _ptrace(_POKE, self.pid, address, originals[address])
            registers.words[machine.pc] = address
            registers.write()
            stack = registers.words[machine.sp]
            return_address = (
                registers.words[machine.return_register]
                if machine.return_register is not None
                else _ptrace(_PEEK, self.pid, stack) & 2**64 - 1
            )
            while registers.words[machine.pc] != return_address or registers.words[machine.sp] < stack:
                assert self.resume(_SINGLESTEP) == signal.SIGTRAP
                yield
                registers.read()
            self._set_breakpoint(address, originals[address], mask)
        assert self.exit_status == 0, f"the child ended with {self.exit_status}"

    def _set_breakpoint(self, address: int, word: int, mask: int) -> None:
        instruction = int.from_bytes(self._machine.breakpoint, "little")
        _ptrace(_POKE, self.pid, address, word & ~mask | instruction)

    def system_calls(self) -> Iterator[None]:
        """Run to the end; yield before and after each system call."""
        while self.resume(_SYSCALL) == signal.SIGTRAP:
            yield
        assert self.exit_status == 0, f"the child ended with {self.exit_status}"


def _run_child(call: Callable[[], object]) -> None:
    try:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        call()
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)
    os._exit(0)


def addresses_of(functions: Sequence[Any]) -> list[int]:
    """Return where the machine code of compiled functions is, for all signatures that were compiled."""
    return [
        result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        for function in functions
        for result in function.overloads.values()
    ]


class Watched:
    """Files that a process maps, as a reader of them sees them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._mappings = []
        for path in paths:
            with path.open("rb") as file:
                self._mappings.append(mmap(file.fileno(), 0, access=ACCESS_READ))

    def contents(self) -> Contents:
        return tuple([mapping[:] for mapping in self._mappings])


def machine_states(
    functions: Sequence[Any], call: Callable[[], object], paths: Sequence[Path]
) -> list[Contents]:
    """Return the files' contents before a call, and after each instruction that changed them.

    `call` leads to the compiled `functions`. What it changes before each of them counts as one change, and it
    may change nothing after them.
    """
    watched, tracee = Watched(paths), Tracee(call)
    states, n_instructions = [watched.contents()], 0
    try:
        for _ in tracee.instructions(addresses_of(functions)):
            n_instructions += 1
            _add_change(states, watched)
    finally:
        tracee.kill()
    assert n_instructions, f"none of {functions} was called"
    assert watched.contents() == states[-1], "the files were changed by another function"
    return states


def killed_after(functions: Sequence[Any], call: Callable[[], object], instructions: int) -> bool:
    """Kill a child after so many instructions of `functions`; return False if it has ended before."""
    tracee = Tracee(call)
    try:
        for n, _ in enumerate(tracee.instructions(addresses_of(functions)), start=1):
            if n == instructions:
                return True
    finally:
        tracee.kill()
    return False


def storing_instructions(
    functions: Sequence[Any], call: Callable[[], object], paths: Sequence[Path]
) -> list[int]:
    """Return the numbers, from 1, of the instructions of `functions` that change the files."""
    watched, tracee = Watched(paths), Tracee(call)
    previous, numbers = watched.contents(), []
    try:
        for n, _ in enumerate(tracee.instructions(addresses_of(functions)), start=1):
            if (contents := watched.contents()) != previous:
                numbers.append(n)
                previous = contents
    finally:
        tracee.kill()
    return numbers


def source_states(call: Callable[[], object], paths: Sequence[Path]) -> list[Contents]:
    """Return the files' contents before a call, and after each operation of byte code that changed them."""
    watched = Watched(paths)
    states = [watched.contents()]

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        frame.f_trace_opcodes = True
        _add_change(states, watched)
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(previous)
    _add_change(states, watched)
    return states


def _add_change(states: list[Contents], watched: Watched) -> None:
    contents = watched.contents()
    if contents != states[-1]:
        states.append(contents)


def folder_states(call: Callable[[], object], folder: Path) -> Iterator[dict[str, bytes]]:
    """Yield the files of a folder, by name, before a call, and after each system call that changed them."""
    tracee = Tracee(call)
    previous = _files_of(folder)
    yield previous
    try:
        for _ in tracee.system_calls():
            if (files := _files_of(folder)) != previous:
                yield files
                previous = files
    finally:
        tracee.kill()
    if (files := _files_of(folder)) != previous:
        yield files


def _files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}

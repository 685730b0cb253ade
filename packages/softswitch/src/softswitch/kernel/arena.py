"""A BPF arena, memory that BPF programs and this process share, and its layout.

control     one page: the lock, the clock's start, the number of applied changes (`kernel.control`), and
            offsets of the parts after the state
AREA_OF, PORT_OF           area by CPU; port by interface, a hash table without collisions (`Arena.connect`)
INTERFACE_OF, COUNTERS     by port
CONSTANTS   arrays that the code reads
STATE       the block of `memory.layout`
mailbox     requests of the control plane and of `conformance.direct` (`MAILBOX`)
areas       one for each CPU: its number of frames by port (`Arena.program_runs`), and packets in processing
            (`Bpf.reserve`)
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from softswitch import libc
from softswitch.kernel import bpf
from softswitch.kernel.generation import Generation
from softswitch.v1model import PORT_NUMBERS

_PAGE = 4096
# Offsets in bytes. Those in the control page are of one word each, except for `CLOCK`.
LOCK = 64  # in a cache line by itself
START_NS = 128
MULTIPLIER = 136  # of the hash of `PORT_OF` (`port_slots`)
MAILBOX = 144  # its word has the offset of the mailbox
LOST_NOTICES = 152  # number of digests and log records that the ring buffer did not take
NO_SUCH_PORT = 160  # number of frames sent to ports that do not exist
APPLIED = 168  # number of changes that the control plane's program has applied (`kernel.control`)
CLOCK = 192  # two words, used in tests: a frame's time of arrival and the current time, in µs
AREA_OF = _PAGE
MAX_CPUS = 1024
PORT_OF = AREA_OF + 8 * MAX_CPUS
SLOT_BITS = 12  # the hash table has 2^12 slots: interface << 32 | port
INTERFACE_OF = PORT_OF + 8 * (1 << SLOT_BITS)
COUNTERS = INTERFACE_OF + 8 * PORT_NUMBERS
COUNTER_BYTES = 64
# Offsets of the words of a port's counters: numbers of frames, and the length of the last oversize arrival.
# Unsent frames are those that the kernel refused to change or send.
# Oversize frames are dropped: in, more than `MAX_FRAME_BYTES` or several segments; out, more than the MTU.
RECEIVED, SENT, UNSENT, OVERSIZE_IN, LAST_OVERSIZE_BYTES, OVERSIZE_OUT = range(0, 48, 8)
PROGRAM_RUNS, PROGRAM_RUNS_BYTES = 0, 8 * PORT_NUMBERS
"""Offset and size, in bytes, of the number of runs by port in each CPU's area: one run for each frame."""
CONSTANTS = COUNTERS + COUNTER_BYTES * PORT_NUMBERS
CONSTANT_BYTES = 1 << 16
STATE = (CONSTANTS + CONSTANT_BYTES + _PAGE - 1) // _PAGE * _PAGE

_MAP_FIXED_NOREPLACE = 0x100000


class Arena:
    """Memory for the state, a mailbox and areas, open until `close`; zeroed unless restored from a pin."""

    def __init__(
        self,
        state_bytes: int,
        mailbox_bytes: int,
        cpu_area_bytes: int,
        generation: Generation | None = None,
    ) -> None:
        cpus = possible_cpus()
        self.mailbox = STATE + _round_to_pages(state_bytes)
        areas = self.mailbox + _round_to_pages(mailbox_bytes)
        stride = _round_to_pages(cpu_area_bytes)
        self.size = areas + cpus * stride
        fixed_address = 0 if generation is None else generation.address
        create_map = partial(
            bpf.create_map,
            bpf.ARENA,
            key_bytes=0,
            value_bytes=0,
            max_entries=self.size // _PAGE,
            flags=bpf.MMAPABLE,
            arena_address=fixed_address,
        )
        self.descriptor = create_map() if generation is None else generation.open_map("arena", create_map)
        self.is_restored = generation is not None and generation.is_restored
        # Programs cannot use a page that no process has accessed: they read 0, and their writes are lost.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE | (_MAP_FIXED_NOREPLACE if fixed_address else 0)
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        try:
            address = libc.map_memory(fixed_address, self.size, protection, flags, self.descriptor)
        except OSError as error:
            bpf.close(self.descriptor)
            raise bpf.BpfError(f"map a BPF arena of {self.size} bytes: {error.strerror}") from error
        self.address = address
        if not self.is_restored:
            ctypes.memset(address, 0, self.size)
        self._memory = memoryview(_own_mapping(address, self.size)).cast("B")
        self.words[MAILBOX // 8] = self.mailbox
        self.words[AREA_OF // 8 : AREA_OF // 8 + cpus] = areas + stride * np.arange(cpus)
        self._cpus, self._areas, self._stride = cpus, areas, stride

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        return self.view(0, self.size)

    def view(self, offset: int, size: int) -> npt.NDArray[np.uint64]:
        """Return a part as words; `offset` and `size` are in bytes."""
        return np.frombuffer(self._memory, dtype=np.uint64, count=size // 8, offset=offset)

    def program_runs(self) -> npt.NDArray[np.uint64]:
        """Return the number of frames that each CPU has processed; shape (CPUs, ports)."""
        areas = self.view(self._areas, self._cpus * self._stride).reshape(self._cpus, self._stride // 8)
        return areas[:, PROGRAM_RUNS // 8 : (PROGRAM_RUNS + PROGRAM_RUNS_BYTES) // 8]

    def connect(self, index_by_port: dict[int, int]) -> None:
        """Store the index of each port's interface."""
        indices = np.array(list(index_by_port.values()), dtype=np.uint64)
        # Draw odd multipliers until no two interfaces share a slot.
        generator = np.random.default_rng(seed=1)
        multiplier = np.uint64(1)
        while len(set(port_slots(indices, multiplier).tolist())) < len(indices):
            multiplier = generator.integers(1 << 32, dtype=np.uint64) | np.uint64(1)
        port_entries = np.zeros(1 << SLOT_BITS, dtype=np.uint64)
        interface_indices = np.zeros(PORT_NUMBERS, dtype=np.uint64)
        for (port, index), slot in zip(index_by_port.items(), port_slots(indices, multiplier), strict=True):
            port_entries[int(slot)] = index << 32 | port
            interface_indices[port] = index
        words = self.words
        words[MULTIPLIER // 8] = multiplier
        # Programs may run meanwhile. With the fixed seed, unchanged interfaces get the same entries again.
        words[PORT_OF // 8 : INTERFACE_OF // 8] = port_entries
        words[INTERFACE_OF // 8 : COUNTERS // 8] = interface_indices

    def close(self) -> None:
        """Close the map and unmap it, once its last view is gone; loaded programs keep the map open.

        Closing twice is harmless; any other use of a closed arena raises AttributeError.
        """
        if vars(self).pop("_memory", None) is not None:
            bpf.close(self.descriptor)


def _own_mapping(address: int, size: int) -> ctypes.Array[ctypes.c_char]:
    """Return a buffer that unmaps the memory when the last reference to it, such as a view's, is gone."""
    mapped_bytes = (ctypes.c_char * size).from_address(address)
    # At its end the process unmaps all memory, and other threads may still use views.
    weakref.finalize(mapped_bytes, libc.unmap_memory, address, size).atexit = False
    return mapped_bytes


def port_slots(interface: npt.NDArray[np.uint64], multiplier: np.uint64) -> npt.NDArray[np.uint64]:
    """Return the slots in `PORT_OF` of interfaces, given by index; BPF programs compute the same slots."""
    product = interface * multiplier & np.uint64(0xFFFFFFFF)
    return product >> np.uint64(32 - SLOT_BITS)


def possible_cpus() -> int:
    last_cpu = Path("/sys/devices/system/cpu/possible").read_text().strip().replace(",", "-").split("-")[-1]
    count = int(last_cpu) + 1
    if count > MAX_CPUS:
        raise bpf.BpfError(f"expected at most {MAX_CPUS} CPUs for the kernel's datapath, got {count}")
    return count


def _round_to_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE

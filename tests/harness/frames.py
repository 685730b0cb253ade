"""Ethernet frames around Hotline datagrams."""

from __future__ import annotations

import struct

from foundation.protocol.header import (
    HOTLINE_PORT,
    KEYS,
    LANES,
    LAYOUT,
    NO_KEY,
    RESPONSE,
    VALUES,
    Header,
    Op,
    layout,
)

FLAGS = {Op.PULL: KEYS, Op.PUSH: KEYS | VALUES, Op.EMPTY: 0}
ANSWER_FLAGS = {Op.PULL: RESPONSE | VALUES, Op.PUSH: RESPONSE, Op.EMPTY: RESPONSE, Op.CONTROL: RESPONSE}


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def internet_checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def datagram(
    header: Header, keys: list[int] | None = None, values: list[int] | None = None, compiled_for: int = LANES
) -> bytes:
    """Return the bytes of an RPC for a program of `compiled_for` lanes; None leaves a section out."""
    data = layout(compiled_for).pack(*header)
    data += b"".join(struct.pack(">Q", key) for key in keys or ())
    return data + b"".join(struct.pack(">I", value & 0xFFFFFFFF) for value in values or ())


def request(
    op: Op, *, job: int, worker: int, epoch: int, ps: int, seq: int, lanes: dict[int, tuple[int, int]],
    compiled_for: int = LANES, flags: int | None = None, dim: int = 1,
) -> bytes:  # fmt: skip
    """Return a request; `lanes` maps a lane number to (key, value), where a row has value, value + 1, ..."""
    count = max(lanes, default=-1) + 1
    filled = [lanes.get(lane, (NO_KEY, 0)) for lane in range(count)]
    header = Header(
        op=op,
        flags=FLAGS[op] if flags is None else flags,
        job=job,
        worker=worker,
        epoch=epoch,
        ps=ps,
        count=count,
        dim=dim,
        seq=seq,
        iteration=7,
        live=sum(1 << lane for lane in lanes),
        t0=123456789,
    )
    keys = [key for key, _ in filled]
    row = range(dim)
    values = (
        [value + k if key != NO_KEY else 0 for key, value in filled for k in row] if op is Op.PUSH else None
    )
    return datagram(header, None if op is Op.EMPTY else keys, values, compiled_for)


def frame(payload: bytes, *, src: tuple[str, str, int], dst: tuple[str, str, int]) -> bytes:
    """Put Ethernet, IPv4 and UDP (checksum 0) around a payload; ends are (MAC, address, port)."""
    udp = struct.pack(">HHHH", src[2], dst[2], 8 + len(payload), 0)
    addresses = bytes(int(part) for end in (src, dst) for part in end[1].split("."))
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, 17, 0) + addresses
    ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
    return mac(dst[0]) + mac(src[0]) + b"\x08\x00" + ip + udp + payload


class Parsed:
    def __init__(self, data: bytes) -> None:
        self.dst_mac, self.src_mac = data[:6].hex(":"), data[6:12].hex(":")
        self.src, self.dst = (".".join(map(str, data[at : at + 4])) for at in (26, 30))
        self.src_port, self.dst_port, self.udp_length, self.udp_checksum = struct.unpack(">HHHH", data[34:42])
        self.total_len = int.from_bytes(data[16:18], "big")
        self.checksum_ok = internet_checksum(data[14:34]) == 0
        self.length = len(data)
        self.keys: list[int] | None = None
        self.values: list[int] | None = None
        self._rpc: Header | None = None
        if HOTLINE_PORT in (self.src_port, self.dst_port):
            self._rpc = Header._make(LAYOUT.unpack_from(data, 42))
            at, count = 42 + LAYOUT.size, self._rpc.count
            if self._rpc.flags & KEYS:
                self.keys = list(struct.unpack_from(f">{count}Q", data, at))
                at += 8 * count
            if self._rpc.flags & VALUES:
                self.values = list(struct.unpack_from(f">{count}I", data, at))

    @property
    def rpc(self) -> Header:
        assert self._rpc is not None
        return self._rpc

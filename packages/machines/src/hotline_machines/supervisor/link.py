"""Measure the link from this machine to another supervisor."""

from __future__ import annotations

import asyncio
import ssl
import time

from hotline_machines.channel import Greeting, connect

DISCARD, ECHO = "discard", "echo"
"""Purposes of connections whose bytes are dropped, with an answer to the last one, or sent back."""
_ROUND_TRIPS = 20
_BANDWIDTH_S = 0.1
_CHUNK, _LAST_BYTE = bytes(1 << 18), b"\1"  # TLS has no end of one direction


async def measure_link(host: str, port: int, token: str, tls: ssl.SSLContext | None) -> dict[str, float]:
    return {
        "round_trip_us": await _round_trip_us(host, port, token, tls),
        "bandwidth_mbit_s": await _bandwidth_mbit_s(host, port, token, tls),
    }


async def _round_trip_us(host: str, port: int, token: str, tls: ssl.SSLContext | None) -> float:
    """Return the shortest round trip of a byte over TCP, the processes at both ends included."""
    reader, writer = await connect(host, port, Greeting(token, ECHO), tls)
    try:
        times_us = []
        for _ in range(_ROUND_TRIPS):
            begin_ns = time.monotonic_ns()
            writer.write(b"?")
            await reader.readexactly(1)
            times_us.append((time.monotonic_ns() - begin_ns) / 1e3)
        return min(times_us)
    finally:
        writer.close()


async def _bandwidth_mbit_s(host: str, port: int, token: str, tls: ssl.SSLContext | None) -> float:
    reader, writer = await connect(host, port, Greeting(token, DISCARD), tls)
    try:
        begin_s, sent = time.monotonic(), 0
        while time.monotonic() - begin_s < _BANDWIDTH_S:
            writer.write(_CHUNK)
            await writer.drain()
            sent += len(_CHUNK)
        writer.write(_LAST_BYTE)
        await reader.read(1)
        return 8 * sent / (time.monotonic() - begin_s) / 1e6
    finally:
        writer.close()


async def discard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while (data := await reader.read(1 << 20)) and not data.endswith(_LAST_BYTE):
        pass
    writer.write(b"!")
    await writer.drain()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 10):
        writer.write(data)

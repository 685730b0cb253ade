"""Datagrams that something has happened to."""

from __future__ import annotations

from random import Random


def mutate(datagram: bytes, random: Random) -> bytes:
    """Change one to four bits or bytes, cut or append; mostly in the header."""
    data = bytearray(datagram)
    for _ in range(random.randint(1, 4)):
        choice = random.random()
        at = random.randrange(min(len(data), 64)) if data else 0
        if choice < 0.1 or not data:
            data += random.randbytes(random.randint(1, 16))
        elif choice < 0.3:
            del data[random.randrange(len(data)) :]
        elif choice < 0.6:
            data[at] ^= 1 << random.randrange(8)
        else:
            data[at] = random.choice([0, 1, 255, random.getrandbits(8)])
    return bytes(data)

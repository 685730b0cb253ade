"""Mutation of inputs: small changes, words of the format, and sometimes halves of two inputs joined."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

MAX_BYTES = 4096  # of a mutated input
# Limits of widths, lanes and bytes, and numbers beside them.
_NUMBERS = (0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31)
_DIGITS = b"0123456789+-.eE_, :\n"
_EXTREMES = tuple(
    text.encode()
    for text in ("0", "-1", "0.5", "1e-300", "1e300", "nan", *(str(2**n) for n in (16, 31, 53, 63, 64)))
)
_WORD = re.compile(rb"[\w.+-]+")


class Mutator:
    """Mutates inputs by random changes; `tokens` are words of the format."""

    def __init__(self, random: Random, tokens: Sequence[bytes]) -> None:
        self._random = random
        self._tokens = tokens
        self._changes: list[Callable[[bytearray], None]] = [
            self._flip_bit, self._set_byte, self._write_number, self._cut, self._repeat, self._move,
            self._insert, self._write_digit, self._replace_word,
        ]  # fmt: skip
        if tokens:
            self._changes += [self._write_token, self._write_token]

    def mutate(self, data: bytes, other: bytes) -> bytes:
        """Return `data` with one or more changes; its end may come from `other`."""
        random = self._random
        changed = bytearray(data)
        if random.random() < 0.1:
            changed = bytearray(data[: self._offset(data)] + other[self._offset(other) :])
        for _ in range(1 << random.choice((0, 0, 1, 1, 2, 3))):  # 1, 2, 4 or 8 changes, mostly few
            random.choice(self._changes)(changed)
        return bytes(changed[:MAX_BYTES])

    def _offset(self, data: Sequence[int]) -> int:
        """Return an offset; low offsets are likelier, because headers are there."""
        length = len(data) if self._random.random() < 0.5 else min(len(data), 64)
        return self._random.randrange(length + 1)

    def _length(self) -> int:
        return 1 << self._random.randrange(8) if self._random.random() < 0.3 else self._random.randint(1, 8)

    def _flip_bit(self, data: bytearray) -> None:
        if data:
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)

    def _set_byte(self, data: bytearray) -> None:
        offset = self._offset(data)
        data[offset : offset + 1] = bytes(
            [self._random.choice((0, 1, 0x7F, 0x80, 0xFF, self._random.randrange(256)))]
        )

    def _write_number(self, data: bytearray) -> None:
        offset, size = self._offset(data), self._random.choice((1, 2, 4, 8))
        number = self._random.choice(_NUMBERS) * self._random.choice((1, 1, -1))
        data[offset : offset + size] = (number % (1 << 8 * size)).to_bytes(size, "big")

    def _write_digit(self, data: bytearray) -> None:
        offset = self._offset(data)
        data[offset : offset + self._random.randrange(2)] = bytes([self._random.choice(_DIGITS)])

    def _cut(self, data: bytearray) -> None:
        offset = self._offset(data)
        del data[offset : None if self._random.random() < 0.2 else offset + self._length()]

    def _repeat(self, data: bytearray) -> None:
        offset = self._offset(data)
        times = 1 << self._random.choice((0, 0, 0, 1, 5, 10))
        data[offset:offset] = (data[offset : offset + self._length()] * times)[:MAX_BYTES]

    def _move(self, data: bytearray) -> None:
        offset, length = self._offset(data), self._length()
        piece = data[offset : offset + length]
        del data[offset : offset + length]
        target = self._offset(data)
        data[target:target] = piece

    def _insert(self, data: bytearray) -> None:
        offset = self._offset(data)
        data[offset:offset] = self._random.randbytes(self._length())

    def _replace_word(self, data: bytearray) -> None:
        words = list(_WORD.finditer(data))
        if words:
            word, other = self._random.choice(words), self._random.choice(words)
            is_number = word.group()[:1].isdigit() and self._random.random() < 0.7
            token = self._random.choice(_EXTREMES if is_number else (other.group(), *self._tokens))
            data[word.start() : word.end()] = token

    def _write_token(self, data: bytearray) -> None:
        offset, token = self._offset(data), self._random.choice(self._tokens)
        data[offset : offset + self._random.choice((0, 0, len(token)))] = token

"""Ways in which a file is damaged: by a power failure, a full or bad disk, or by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

PAGE = 4096
Damage = Callable[[bytes, bytes], bytes | None]
"""Returns the content of a file, given its content and that of another file of its kind; None removes it."""


def _flip(position: Callable[[int], int]) -> Damage:
    def flip(content: bytes, _other: bytes) -> bytes:
        index = position(len(content))
        return content[:index] + bytes([content[index] ^ 0x10]) + content[index + 1 :]

    return flip


def _zero_page(content: bytes, _other: bytes) -> bytes:
    begin = len(content) // 3
    zeros = bytes(min(PAGE, len(content) - begin))
    return content[:begin] + zeros + content[begin + len(zeros) :]


CONTENTS: dict[str, Damage] = {
    "empty": lambda content, _: b"",
    "one byte": lambda content, _: content[:1],
    "half": lambda content, _: content[: len(content) // 2],
    "without its last byte": lambda content, _: content[:-1],
    "a bit at the beginning": _flip(lambda size: 0),
    "a bit in the middle": _flip(lambda size: size // 2),
    "a bit at the end": _flip(lambda size: size - 1),
    "a page of zeros": _zero_page,
    "random bytes": lambda content, _: Random(1).randbytes(len(content)),
    "appended bytes": lambda content, _: content + bytes(8),
    "another file's content": lambda _, other: other,
    "removed": lambda content, _: None,
}
DIRECTORY, DANGLING_LINK = "a directory", "a dangling link"
DAMAGES = (*CONTENTS, DIRECTORY, DANGLING_LINK)


def damage(file: Path, way: str, other: bytes) -> None:
    """Damage a file; `other` is the content of another file of its kind."""
    content = file.read_bytes()
    file.unlink()
    if way == DIRECTORY:
        (file / "found").mkdir(parents=True)
    elif way == DANGLING_LINK:
        file.symlink_to(file.parent / "nowhere")
    elif (damaged := CONTENTS[way](content, other)) is not None:
        file.write_bytes(damaged)


def remove(file: Path) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)

"""Logs with BMv2's levels and format: `[12:34:56.789] [bmv2] [I] [thread 1234] text`."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from softswitch.errors import SwitchError

MAX_FILE_BYTES, MAX_FILES = 5 << 20, 3
"""BMv2's defaults: bytes of a file before it is rotated, and number of rotated files."""
_OFF = logging.CRITICAL + 1
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": _OFF,
}
_LETTERS = {logging.DEBUG: "D", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}


class Bmv2Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03d}"
        letter = _LETTERS.get(record.levelno, "C")  # critical
        text = f"[{time}] [bmv2] [{letter}] [thread {record.thread}] {record.getMessage()}"
        return text if not record.exc_info else f"{text}\n{self.formatException(record.exc_info)}"


def configure(
    level: str, console: bool, file: Path | None, max_bytes: int = MAX_FILE_BYTES, max_files: int = MAX_FILES
) -> None:
    handler: logging.Handler = logging.StreamHandler(sys.stdout)
    if file is not None:
        try:
            handler = RotatingFileHandler(file, maxBytes=max_bytes, backupCount=max_files)
        except OSError as error:
            raise SwitchError(f"--log-file {file}: {error.strerror}") from None
    elif not console:
        logging.basicConfig(level=logging.WARNING, format="softswitch: %(levelname)s: %(message)s")
        return
    handler.setFormatter(Bmv2Formatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(max(_LEVELS[level], logging.WARNING))  # libraries log warnings and errors only
    logging.getLogger("softswitch").setLevel(_LEVELS[level])

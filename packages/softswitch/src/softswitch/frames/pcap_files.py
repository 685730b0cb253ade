"""Frames from INTERFACE_in.pcap and to INTERFACE_out.pcap, as with BMv2's `--use-files`.

Inputs may be pipes. Frames are processed in order of their timestamps, without delays between them; as
in BMv2 the next frame of every file is read before any is processed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from softswitch.errors import SwitchError
from softswitch.frames.ports import FramePorts
from softswitch.pcap import create_file, read_frames, record_header

_LOG = logging.getLogger(__name__)


class PcapFiles:
    """Files for each port, named after its interface in `names`; `delay_s` is the delay before reading."""

    name = "pcap files"

    def __init__(self, names: Mapping[int, str], delay_s: int = 0, folder: Path = Path()) -> None:
        self._names, self._delay_s, self._folder = names, max(0, delay_s), folder
        self.address = str(folder.absolute())
        self._outputs: dict[int, int] = {}
        self._output_files = ExitStack()
        self._closing = threading.Event()
        self._ports: FramePorts
        self._thread = threading.Thread(target=self._read_files, name="pcap-files", daemon=True)

    def open(self, ports: FramePorts) -> None:
        self._ports = ports
        with ExitStack() as cleanup:
            cleanup.callback(self._output_files.close)
            for port, name in self._names.items():
                if not (path := self._folder / f"{name}_in.pcap").exists():
                    raise SwitchError(f"--use-files: {path}: there is no such file")
                self._outputs[port] = self._create_output(self._folder / f"{name}_out.pcap")
            cleanup.pop_all()
        self._thread.start()

    def _create_output(self, path: Path) -> int:
        try:
            descriptor = create_file(path)
        except OSError as error:
            raise SwitchError(f"--use-files: {path}: {error.strerror}") from None
        self._output_files.callback(os.close, descriptor)
        return descriptor

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        if port not in self._outputs:
            return False
        record = record_header(time.time_ns(), len(frame)) + frame
        return os.write(self._outputs[port], record) == len(record)

    def close(self) -> None:
        """Stop reading; a thread blocked by a pipe without a writer ends with the process."""
        self._closing.set()
        self._output_files.close()

    def _read_files(self) -> None:
        self._ports.started.wait()  # p4c's STF runner needs pipe writers to block until start
        if self._closing.is_set():
            return
        try:
            with ExitStack() as input_files:
                paths = {port: self._folder / f"{name}_in.pcap" for port, name in self._names.items()}
                files = {port: input_files.enter_context(path.open("rb")) for port, path in paths.items()}
                if not self._closing.wait(self._delay_s):
                    self._deliver_in_order(
                        {port: read_frames(file, file.name) for port, file in files.items()}
                    )
        except (SwitchError, OSError) as error:
            _LOG.error("--use-files: %s", error)

    def _deliver_in_order(self, readers: Mapping[int, Iterator[tuple[int, bytes]]]) -> None:
        next_frames = {port: next(reader, None) for port, reader in readers.items()}
        while not self._closing.is_set():
            unread_frames = {port: frame for port, frame in next_frames.items() if frame is not None}
            if not unread_frames:
                return
            # If times are equal, `min` returns the first port.
            port = min(unread_frames, key=lambda candidate: unread_frames[candidate][0])
            self._ports.receive(port, unread_frames[port][1])
            next_frames[port] = next(readers[port], None)

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from softswitch.processes import end_process

_STOP_TIMEOUT_S = 5.0
_BUFFER_KIB = 16384


@contextmanager
def capture(interfaces: Sequence[str], folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for interface in interfaces:
            stack.enter_context(_tcpdump(interface, folder / f"{interface}.pcap"))
        yield


@contextmanager
def _tcpdump(interface: str, file: Path) -> Iterator[None]:
    # -U writes each frame at once, -n looks up no names, -Z root keeps the right to write.
    command = ["tcpdump", "-i", interface, "-w", str(file), "-U", "-n", "-Z", "root", "-B", str(_BUFFER_KIB)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # "listening on ...": no later frame is missed
        try:
            yield
        finally:
            end_process(process, _STOP_TIMEOUT_S)

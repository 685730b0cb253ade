"""Run `pip install` and show its progress: `python3 tools/scripts/pip_install.py PYTHON ARGUMENT...`.

pip itself is silent with --quiet, and prints hundreds of lines without it. On a terminal one line is
refreshed; elsewhere a line is printed every 15 s. This script needs the standard library only, because
nothing is installed yet.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from threading import Thread

_REFRESH_S = 0.2
_LINE_INTERVAL_S = 15.0  # between lines of progress where there is no terminal
_WIDTH = 78  # of the line of progress
_SHOWN_LINES = 30  # last lines of the output of a pip that fails
_INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT
# First word of a line of pip's output -> what the line of progress says.
_STEPS = {
    "Collecting": "looking up",
    "Downloading": "downloading",
    "Using": "cached",
    "Building": "building",
    "Preparing": "preparing",
    "Installing": "installing",
}


class Output:
    def __init__(self) -> None:
        self.step = "starting pip"
        self.package_count = 0
        self.last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.add(line.rstrip())

    def add(self, line: str) -> None:
        self.last_lines.append(line)
        verb, _, rest = line.strip().partition(" ")
        if verb not in _STEPS:
            return
        if verb == "Installing" and rest.startswith("collected packages:"):
            self.step = f"installing {rest.count(',') + 1} packages"
            return
        self.package_count += verb == "Collecting"
        self.step = f"{self.package_count} packages, {_STEPS[verb]} {rest}"


def install(
    python: str, arguments: list[str], is_terminal: bool, line_interval_s: float = _LINE_INTERVAL_S
) -> int:
    process = subprocess.Popen(
        [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output, start_s, stream = Output(), time.monotonic(), process.stdout
    reader = Thread(target=output.read, args=(stream,), daemon=True)
    reader.start()
    next_line_s = start_s + line_interval_s
    while reader.is_alive():
        reader.join(_REFRESH_S)
        now_s = time.monotonic()
        line = f"  {now_s - start_s:3.0f} s  {output.step}"[:_WIDTH]
        if is_terminal:
            print(f"\r\x1b[K{line}", end="", flush=True)
        elif reader.is_alive() and now_s >= next_line_s:
            next_line_s = now_s + line_interval_s
            print(line, flush=True)
    stream.close()
    status = process.wait()
    print("\r\x1b[K" if is_terminal else "", end="")
    if status:
        print(*output.last_lines, sep="\n", file=sys.stderr)
    else:
        print(f"  {output.step} ({time.monotonic() - start_s:.0f} s)")
    return status


if __name__ == "__main__":
    try:
        sys.exit(install(sys.argv[1], sys.argv[2:], sys.stdout.isatty()))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)

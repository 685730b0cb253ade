"""Compare whether BMv2 and softswitch take edited JSON: `python -m switch_harness.json_verdicts [--edits N]`.

From the folder tests; BMv2 is the one in `HOTLINE_BMV2`, or from the PATH, and refuses many edits by an
assertion or an exception that ends it. This prints the edits that only one of the two loads, with both
messages, and totals.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from softswitch import processes
from softswitch.errors import ProgramError
from softswitch.load import load_program
from switch_harness import PROGRAMS
from switch_harness.json_edits import Editor

TAKES, REFUSES, ENDS = "takes", "refuses", "ends"
_TIMEOUT_S = 20.0
_READY = b"Server listening"


class Verdict(NamedTuple):
    outcome: str
    message: str = ""


class Edit(NamedTuple):
    program: str
    place: str
    before: str
    after: str
    bmv2: Verdict
    softswitch: Verdict


def bmv2_verdict(path: Path) -> Verdict:
    with processes.reserved_port() as port:
        address = f"127.0.0.1:{port}"
        command = ["stdbuf", "-oL", processes.find_bmv2(), str(path), "--", "--grpc-server-addr", address]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        output, end = b"", time.monotonic() + _TIMEOUT_S
        with process.stdout as stream, selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while time.monotonic() < end and selector.select(end - time.monotonic()):
                part = os.read(stream.fileno(), 65536)
                output += part
                if not part or _READY in output:
                    break
            else:
                process.kill()
                return Verdict(ENDS, "no answer")
            if _READY in output:
                process.kill()
            code = process.wait()
    if _READY in output:
        return Verdict(TAKES)
    message = " ".join(output.decode(errors="replace").split("\n")[1:]).strip()
    return Verdict(REFUSES if code > 0 and code < 128 else ENDS, message[:300])


def softswitch_verdict(data: bytes) -> Verdict:
    try:
        load_program(data)
    except ProgramError as error:
        return Verdict(REFUSES, str(error)[:300])
    return Verdict(TAKES)


def difference(before: Any, after: Any, place: str = "") -> tuple[str, str, str]:
    """Return where two JSON values differ first, and both parts."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            if key not in before or key not in after:
                return f"{place}.{key}", _short(before.get(key)), "missing" if key in before else "new"
            if before[key] != after[key] or type(before[key]) is not type(after[key]):
                return difference(before[key], after[key], f"{place}.{key}")
    if isinstance(before, list) and isinstance(after, list) and before and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other or type(one) is not type(other):
                return difference(one, other, f"{place}[{number}]")
    if isinstance(before, list) and isinstance(after, list) and len(after) == len(before) - 1:
        number = next((n for n, one in enumerate(after) if one != before[n]), len(after))
        return f"{place}[{number}]", _short(before[number]), "missing"
    return place, _short(before), _short(after)


def _short(value: object) -> str:
    return json.dumps(value)[:160]


def compare(name: str, seed: int, folder: Path) -> Edit:
    text = (PROGRAMS / f"{name}.json").read_bytes()
    data = Editor(text, Random(f"{name} {seed}")).edited()
    path = folder / f"{name}_{seed}.json"
    path.write_bytes(data)
    try:
        place, before, after = difference(json.loads(text), json.loads(data))
        return Edit(name, place, before, after, bmv2_verdict(path), softswitch_verdict(data))
    finally:
        path.unlink()


def draw(edits: int, seed: int, threads: int) -> Iterator[Edit]:
    names = sorted(path.stem for path in PROGRAMS.glob("*.json"))
    cases = [(names[number % len(names)], seed + number) for number in range(edits)]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda case: compare(case[0], case[1], Path(folder)), cases)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--edits", type=int, default=2000, help="edits in all (2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first edit (1)")
    parser.add_argument("--threads", type=int, default=2, help="BMv2s at the same time (2)")
    options = parser.parse_args()
    totals: Counter[tuple[str, str]] = Counter()
    for edit in draw(options.edits, options.seed, options.threads):
        totals[edit.bmv2.outcome, edit.softswitch.outcome] += 1
        if (edit.bmv2.outcome == TAKES) != (edit.softswitch.outcome == TAKES):
            print(json.dumps(edit._asdict()), flush=True)
    alike = sum(
        count for (bmv2, softswitch), count in totals.items() if (bmv2 == TAKES) == (softswitch == TAKES)
    )
    for (bmv2, softswitch), count in sorted(totals.items()):
        print(f"BMv2 {bmv2}, softswitch {softswitch}: {count}")
    print(f"alike: {alike} of {options.edits}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

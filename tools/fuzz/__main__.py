"""`python -m tools.fuzz [TARGET...]`: search for inputs that parsers handle wrongly."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

from tools.fuzz.loop import Fuzzer, shrink, within_limits
from tools.fuzz.target import ROOT, Finding, Target
from tools.fuzz.targets import NAMES, target

FINDINGS = ROOT / "build" / "fuzz"
SECONDS = 10.0
_MAX_SHOWN_BYTES = 80  # of an input
_DIGEST_DIGITS = 12  # in the name of a file


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    # With nargs="*", argparse checks an omitted list against the choices, too.
    parser.add_argument("targets", nargs="*", choices=[*NAMES, []], metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument(
        "--seconds", type=float, help=f"time for each target; {SECONDS:g} without --executions"
    )
    parser.add_argument(
        "--executions", type=int, help="executions for each target, those of committed inputs included"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    parser.add_argument(
        "--keep", action="store_true", help="add inputs that reach new edges to the committed corpus"
    )
    arguments = parser.parse_args()
    seconds = SECONDS if arguments.seconds is None and arguments.executions is None else arguments.seconds
    found = 0
    for name in arguments.targets or NAMES:
        fuzzer = _search(target(name), arguments.seed, seconds, arguments.executions)
        found += len(fuzzer.findings)
        if arguments.keep:
            _add_to_corpus(fuzzer)
    return int(found > 0)


def _search(chosen: Target, seed: int, seconds: float | None, executions: int | None) -> Fuzzer:
    begin = time.monotonic()
    fuzzer = Fuzzer(chosen, seed)
    edges_of_corpus = fuzzer.edges
    fuzzer.search(within_limits(seconds, executions, fuzzer))
    rate = fuzzer.executions / (time.monotonic() - begin)
    print(
        f"{chosen.name}: {fuzzer.executions:,} executions, {rate:,.0f}/s; {fuzzer.edges:,} edges, "
        f"{fuzzer.edges - edges_of_corpus:,} of them new; slowest {fuzzer.slowest[0] * 1e3:.0f} ms",
        flush=True,
    )
    for finding in fuzzer.findings.values():
        _report(chosen, shrink(chosen, finding))
    return fuzzer


def _report(chosen: Target, finding: Finding) -> None:
    file = FINDINGS / f"{chosen.name}-{_digest(finding.data)}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(finding.data)
    print(
        f"  {finding}\n    by {finding.data[:_MAX_SHOWN_BYTES]!r}, written to {file.relative_to(ROOT)}",
        flush=True,
    )


def _add_to_corpus(fuzzer: Fuzzer) -> None:
    """Add inputs that reach new edges to the corpus; no committed input is removed."""
    folder: Path = fuzzer.target.corpus
    folder.mkdir(parents=True, exist_ok=True)
    committed = set(fuzzer.target.inputs())
    for data in fuzzer.minimise_corpus():
        if data not in committed:
            (folder / _digest(data)).write_bytes(data)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]


if __name__ == "__main__":
    sys.exit(main())

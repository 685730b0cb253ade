"""Print the README's table, a row for each output: `python -m hotline_tofino.report OUTPUT...`.

OUTPUT is the folder given by `-o` to p4c's Tofino backend, which has to run with `--verbose 2`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

HEAD = (
    "| program | stages | SRAM | map RAM | TCAM | stateful ALUs | gateways "
    "| hash bits | PHV, bits | cycles |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)
_RESOURCES = ("SRAM", "Map RAM", "TCAM", "Meter ALU", "Gateway", "Hash Bit")


class ReportError(Exception):
    """A folder is not the output of a successful compilation."""


class Use(NamedTuple):
    """Resources of a pipe that a program uses; `resources` are sums over its stages."""

    stages: int
    resources: dict[str, int]
    phv_bits: int
    """Bits in containers of any kind: normal, tagalong (Tofino 1), mocha and dark (Tofino 2)."""
    cycles: int
    """Cycles that a packet is in ingress."""


def use_of(output: Path) -> Use:
    """Read the reports of a compilation; raise `ReportError` if they are missing or invalid."""
    logs = output / "pipe" / "logs"
    try:
        metrics = json.loads((logs / "metrics.json").read_text())
        stages, resources = _resources((logs / "mau.resources.log").read_text())
    except (OSError, ValueError) as error:
        raise ReportError(f"{output}: expected reports of a program that fits, got: {error}") from None
    containers = [each for kind in metrics["phv"].values() for each in kind]
    [cycles] = [each["cycles"] for each in metrics["mau"]["latency"] if each["gress"] == "ingress"]
    if not cycles:  # p4c writes reports of a program that it has not placed, too
        raise ReportError(f"{output}: expected reports of a program that fits, got 0 cycles in ingress")
    return Use(stages, resources, sum(each["bits_occupied"] for each in containers), cycles)


def _resources(log: str) -> tuple[int, dict[str, int]]:
    """Return the number of stages up to the last used one, and totals of mau.resources.log's first table."""
    names: list[str] = []
    stages = 0
    for line in log.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "Stage Number":
            names = cells
        elif names and cells[0].isdigit():
            if any(cell.strip("0") for cell in cells[1:]):
                stages = int(cells[0]) + 1
        elif names and cells[0] == "Totals":
            totals = dict(zip(names, cells, strict=True))
            return stages, {name: int(totals[name]) for name in _RESOURCES}
    raise ValueError("no row `Totals` in mau.resources.log")


def row(name: str, use: Use) -> str:
    numbers = (use.stages, *(use.resources[name] for name in _RESOURCES), use.phv_bits, use.cycles)
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |"


def main(outputs: list[str]) -> int:
    try:
        rows = [row(Path(output).name, use_of(Path(output))) for output in outputs]
    except ReportError as error:
        print(f"tofino: {error}", file=sys.stderr)
        return 1
    print("\n".join([HEAD, *rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Compare how much CPU time BMv2 needs for the frames of a design with our compiler's JSON and with p4c's.

`python -m tests.harness.bmv2_rates [--rounds N] [--frames N] [DESIGN]...`: two BMv2s get the same entries and
the same frames, in rounds that take turns. Printed is p4c's CPU time of a round divided by ours, which is the
ratio of the frames that they carry in a second of CPU time: its median, and its range over the rounds.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from statistics import median

from controller.tables import CPU_PORT
from foundation.designs.programs import programs_of, trees
from softswitch import processes
from softswitch.compiled import CompiledPipeline
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.dataplane import Dataplane
from softswitch.conformance.encoding import EntityEncoder
from softswitch.load import load_program
from tests.harness import testnet
from tests.harness.vectors import Source, hot_set
from topologies.process_statistics import read_cpu_ns_by_thread

REFERENCES = Path(__file__).parents[1] / "programs" / "p4c"
DESIGNS = ("hotset", "collect")


class Rated:
    """A BMv2 with a program."""

    def __init__(self, pid: int, client: P4RuntimeClient, ports: Dataplane) -> None:
        self._pid, self.client, self._ports = pid, client, ports

    def cpu_ns(self, frames: list[tuple[int, bytes]]) -> int:
        """Return the CPU time in ns that the switch's process needs for some frames."""
        before = sum(read_cpu_ns_by_thread(self._pid).values())
        for port, frame in frames:
            self._ports.process(port, frame)
        return sum(read_cpu_ns_by_thread(self._pid).values()) - before


@contextmanager
def rated(program: Path) -> Iterator[Rated]:
    with processes.reserved_port() as port:
        address = f"127.0.0.1:{port}"
        options = ["--dp-grpc-server-addr", address]
        with (
            processes.bmv2(cpu_port=CPU_PORT, target_options=options) as switch,
            P4RuntimeClient(switch.address) as client,
            closing(Dataplane(address)) as ports,
        ):
            client.set_pipeline(pipeline_config(program))
            ports.wait_until_started()
            yield Rated(switch.process.pid, client, ports)


def ratios(design: str, rounds: int, frames: int) -> list[float]:
    """Return p4c's CPU time divided by ours for each round."""
    [ours] = [each for tree in trees() for each in programs_of(tree) if each.source.stem == design]
    random = Random(2020)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        reference = Path(folder) / design
        for suffix in (".json", ".p4info.txtpb"):
            packed = REFERENCES / f"{design}{suffix}.xz"
            reference.with_suffix(suffix).write_bytes(lzma.decompress(packed.read_bytes()))
        switches = [stack.enter_context(rated(each)) for each in (ours.json, reference)]
        encoder = EntityEncoder(pipeline_config(reference).p4info)
        oracle = CompiledPipeline(load_program(ours.json.read_bytes()))
        entries = [*testnet.network(), *hot_set(random)]
        assert set(oracle.tables.write(entries)) == {None}
        for switch in switches:
            switch.client.write(*map(encoder.update, entries))
        source = Source(random, oracle, words=design == "collect")
        found = []
        for number in range(rounds):
            drawn = []
            for _ in range(frames):
                drawn.append(source.draw())
                oracle.process(*drawn[-1], 0, 0)
            order = switches if number % 2 == 0 else switches[::-1]
            times = {id(switch): switch.cpu_ns(drawn) for switch in order}
            found.append(times[id(switches[1])] / times[id(switches[0])])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("designs", nargs="*", default=DESIGNS, metavar="DESIGN")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--frames", type=int, default=200, help="frames of a round (200)")
    options = parser.parse_args()
    for design in options.designs:
        found = ratios(design, options.rounds, options.frames)
        shown = f"{median(found):.3f} [{min(found):.3f}, {max(found):.3f}]"
        print(f"{design}: frames per CPU second with our JSON / with p4c's: {shown} in {len(found)} rounds")


if __name__ == "__main__":
    main()

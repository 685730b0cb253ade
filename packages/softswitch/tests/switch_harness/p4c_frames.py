"""Random entries and frames for p4c's samples, on switches with p4c's JSON and with ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.conformance import bmv2
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.dataplane import Dataplane
from softswitch.conformance.errors import P4RuntimeError
from softswitch.errors import SwitchError
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import adopt, p4r
from softswitch.pipeline import LogRecord, Pipeline
from switch_harness.beside_bmv2 import compare, compare_switches
from switch_harness.traced import Traced
from switch_harness.twins import STEP_US, Exchange, Twins, by_port
from switch_harness.zeroed import zeroed

OURS, REFERENCE = "BMv2 with softswitch's JSON", "BMv2 with p4c's JSON"
INTERPRETED, COMPILED = "softswitch, interpreted", "softswitch, compiled"
INTERPRETED_REFERENCE = "softswitch with p4c's JSON"


class Triplets(Twins):
    """softswitch and a BMv2 with our JSON, and a BMv2 with p4c's."""

    def __init__(
        self,
        ours: Path,
        reference: Path,
        our_switch: tuple[P4RuntimeClient, Dataplane],
        reference_switch: tuple[P4RuntimeClient, Dataplane],
    ) -> None:
        super().__init__(ours, *our_switch)
        self._reference, self._reference_ports = reference_switch
        self._reference.set_pipeline(pipeline_config(reference))
        self._reference_ports.wait_until_started()

    def update(self, update: p4r.Update) -> bool:
        """Write to all, which have to do it or refuse it alike; whether they did it."""
        ours, ours_on_bmv2 = self.refusals(update)
        reference: P4RuntimeError | None = None
        try:
            self._reference.write(update)
        except P4RuntimeError as error:
            reference = error
        _assert_agreement({"softswitch": ours, OURS: ours_on_bmv2, REFERENCE: reference}, update)
        return ours is None

    def exchange(self, port: int, frame: bytes) -> Exchange:
        found = super().exchange(port, frame)
        if len(found) == 1:
            return found
        reference = by_port(self._reference_ports.process(port, frame))
        return {"softswitch": found["softswitch"], OURS: found["BMv2"], REFERENCE: reference}


class Softswitches:
    """softswitch, interpreted, with our JSON and with p4c's, and if asked for with ours compiled."""

    def __init__(self, ours: Path, reference: Path, has_compiled: bool) -> None:
        self._now = 0
        made: dict[str, tuple[Path, Callable[[ir.Program], Pipeline]]] = {
            INTERPRETED: (ours, InterpretedPipeline),
            INTERPRETED_REFERENCE: (reference, InterpretedPipeline),
        }
        if has_compiled:
            made[COMPILED] = (ours, CompiledPipeline)
        self._switches: dict[str, ControlledPipeline[Pipeline]] = {
            name: ControlledPipeline(pipeline_config(program), kind, lambda: self._now)
            for name, (program, kind) in made.items()
        }

    @property
    def pipeline(self) -> Pipeline:
        return self._switches[INTERPRETED].pipeline

    def update(self, update: p4r.Update) -> bool:
        """Write to all, which have to do it or refuse it alike; whether they did it."""
        update = adopt(update)
        refusals = {
            name: switch.write(p4r.WriteRequest(updates=[update]))[0]
            for name, switch in self._switches.items()
        }
        _assert_agreement(refusals, update)
        return refusals[INTERPRETED] is None

    def exchange(self, port: int, frame: bytes) -> Exchange:
        """Return what each sends out of each port, with its failed assertions as frames of a port -1."""
        self._now += STEP_US
        found: Exchange = {}
        for name, switch in self._switches.items():
            found[name] = by_port(switch.pipeline.process(port, frame, self._now, self._now))
            notices = switch.pipeline.take_notices()
            failed = [each for each in notices if isinstance(each, LogRecord) and each.failed]
            if failed:
                found[name][-1] = ["assertion" for _ in failed]
        return found


def _assert_agreement(refusals: Mapping[str, object | None], update: p4r.Update) -> None:
    shown = ", ".join(f"{switch}: {refusal or 'done'}" for switch, refusal in refusals.items())
    assert len({refusal is None for refusal in refusals.values()}) == 1, f"{shown}; {update}"


def compare_on_bmv2(reference: Path, ours: Path, frames: int) -> tuple[str, str]:
    """Return a verdict and details of both outputs on BMv2, beside softswitch with ours."""
    try:
        reference, ours = (zeroed(each, each.parent) for each in (reference, ours))
        with bmv2.running_switch() as one, bmv2.running_switch() as other:
            switches = Triplets(ours, reference, one, other)
            return _verdict(compare_switches(switches, Traced(ours), frames, Random(1)))
    except (SwitchError, AssertionError) as error:
        return _of_error(reference, frames), _one_line(error)


def compare_on_softswitch(
    reference: Path, ours: Path, frames: int, has_compiled: bool = False
) -> tuple[str, str]:
    """Return a verdict and details of both outputs on softswitch."""
    try:
        switches = Softswitches(ours, reference, has_compiled)
        return _verdict(compare_switches(switches, Traced(ours), frames, Random(1)))
    except (SwitchError, AssertionError) as error:
        return "fails", _one_line(error)


def _verdict(found: str) -> tuple[str, str]:
    if " frames differ" in found:
        return "differs", found
    verdict, _, details = found.partition(": ")
    return verdict, details


def _of_error(reference: Path, frames: int) -> str:
    """Return a verdict for switches that cannot be compared: whether p4c's JSON alone fails on BMv2, too."""
    try:
        compare(reference, frames, seed=1)
    except (SwitchError, AssertionError):
        return "fails with p4c's JSON, too"
    return "fails"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]

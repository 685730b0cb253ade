"""Compare our compiler with p4c on p4c's own samples, and print a line for each sample and the counts.

From the folder tests, with a checkout of p4c, and for two suites with programs that are there already:

    python -m switch_harness.beside_p4c info CHECKOUT [--only REGEX]      needs p4c-bm2-ss on the PATH
    python -m switch_harness.beside_p4c frames CHECKOUT [--only REGEX]    needs BMv2 as well (`HOTLINE_BMV2`)
    python -m switch_harness.beside_p4c errors CHECKOUT [--only REGEX]

`info` compares P4Info, as text, of the samples for v1model. `frames` runs them on three switches, with random
entries and frames: BMv2 with p4c's JSON, and BMv2 and softswitch with ours. Fields of headers are set to 0 in
the parser, as `beside_bmv2` says. `errors` compiles the samples that p4c refuses, and compares the lines of
the errors with those of p4c's expected messages.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from softswitch.conformance import bmv2
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.dataplane import Dataplane
from softswitch.conformance.errors import P4RuntimeError
from softswitch.errors import ProgramError, SwitchError
from softswitch.p4runtime.messages import p4r
from switch_harness.beside_bmv2 import compare, compare_switches
from switch_harness.p4c_errors import errors_suite
from switch_harness.p4c_samples import (
    REFUSED_BY_P4C,
    compile_by_p4c,
    compile_by_us,
    first_line,
    name_of,
    v1model_samples,
)
from switch_harness.traced import Traced
from switch_harness.twins import Exchange, Twins, by_port
from switch_harness.zeroed import zeroed

Verdicts = Iterator[tuple[str, str, str]]
"""A sample's name, a verdict, and details."""
OURS, REFERENCE = "BMv2 with softswitch's JSON", "BMv2 with p4c's JSON"


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
        found = {"softswitch": ours, OURS: ours_on_bmv2, REFERENCE: reference}
        shown = ", ".join(f"{switch}: {refusal or 'done'}" for switch, refusal in found.items())
        assert len({refusal is None for refusal in found.values()}) == 1, f"{shown}; {update}"
        return ours is None

    def exchange(self, port: int, frame: bytes) -> Exchange:
        found = super().exchange(port, frame)
        if len(found) == 1:
            return found
        reference = by_port(self._reference_ports.process(port, frame))
        return {"softswitch": found["softswitch"], OURS: found["BMv2"], REFERENCE: reference}


def info_suite(checkout: Path, only: re.Pattern[str], _frames: int) -> Verdicts:
    for sample, reference, ours in _compiled(checkout, only):
        if isinstance(ours, str):
            yield name_of(sample), *_reason(ours)
            continue
        one, other = (each.with_suffix(".p4info.txtpb").read_text() for each in (reference, ours))
        yield name_of(sample), "equal" if one == other else "differs", ""


def frames_suite(checkout: Path, only: re.Pattern[str], frames: int) -> Verdicts:
    for sample, reference, ours in _compiled(checkout, only):
        if isinstance(ours, str):
            yield name_of(sample), *_reason(ours)
            continue
        try:
            reference, ours = (zeroed(each, each.parent) for each in (reference, ours))
            with bmv2.running_switch() as one, bmv2.running_switch() as other:
                switches = Triplets(ours, reference, one, other)
                found = compare_switches(switches, Traced(ours), frames, Random(1))
        except (SwitchError, AssertionError) as error:
            yield name_of(sample), _of_error(reference, frames), " ".join(str(error).split())[:400]
            continue
        is_different = " frames differ" in found
        verdict, _, details = found.partition(": ")
        yield name_of(sample), "differs" if is_different else verdict, found if is_different else details


def _of_error(reference: Path, frames: int) -> str:
    """Return a verdict for switches that cannot be compared: whether p4c's JSON alone fails on BMv2, too."""
    try:
        compare(reference, frames, seed=1)
    except (SwitchError, AssertionError):
        return "fails with p4c's JSON, too"
    return "fails"


def _compiled(checkout: Path, only: re.Pattern[str]) -> Iterator[tuple[Path, Path, Path | str]]:
    """Yield each sample that p4c compiles, with the paths of both outputs; a text says why ours is none."""
    for sample in v1model_samples(checkout, only):
        with TemporaryDirectory() as folder:
            reference = compile_by_p4c(sample, Path(folder))
            ours: Path | str
            try:
                ours = compile_by_us(sample, Path(folder))
            except ProgramError as error:
                ours = first_line(error)
            if reference is not None:
                yield sample, reference, ours
            else:
                outcome = "softswitch takes it" if isinstance(ours, Path) else f"softswitch: {ours}"
                yield sample, sample, f"{REFUSED_BY_P4C}: {outcome}"


def _reason(ours: str) -> tuple[str, str]:
    verdict, _, details = ours.partition(f"{REFUSED_BY_P4C}: ")
    return (REFUSED_BY_P4C, details) if details else ("refused", verdict)


SUITES: dict[str, Callable[[Path, re.Pattern[str], int], Verdicts]] = {
    "info": info_suite,
    "frames": frames_suite,
    "errors": errors_suite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="a checkout of p4c")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--frames", type=int, default=60, help="frames for each program (60)")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    for name, verdict, details in SUITES[options.suite](
        options.checkout.absolute(), options.only, options.frames
    ):
        totals[verdict] += 1
        print(f"{name}: {verdict}{': ' if details else ''}{details}", flush=True)
    print(
        f"{totals.total()} samples: " + ", ".join(f"{count} {kind}" for kind, count in totals.most_common())
    )


if __name__ == "__main__":
    main()

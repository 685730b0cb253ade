"""Compare the open Tofino model with the twin of the program, which softswitch runs.

The model is pkgsrc/tofino-model of open-p4studio. Its test harness, tests/simple_test_harness, runs scripts
of table entries, frames, and checks of registers and counters. Each seed has other entries and frames.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from controller.tables import CPU_PORT
from foundation.errors import reason_of
from foundation.protocol.frames import packet_out_header
from packages.tofino.tests.harness.twins import TWIN_INGRESS, TWINS, for_twin
from softswitch.compiled import CompiledPipeline
from softswitch.ir import Program
from softswitch.pipeline import ActionCall, EntryWrite
from tests.harness import testnet
from tests.harness.testnet import FOR_TESTS, Code, code_of
from tests.harness.vectors import SLOTS, Source, hot_set

LANES = 16
DIMS = (1,)
"""Values of the rows that the program serves."""
MODEL_CPU_PORT = 64  # as SWITCH_CPU_PORT in packages/tofino/p4src/tofino/tna.p4
_HEADER_BYTES, _PORT_BITS, _WORD_BITS = 2, 9, 32
_FRAME_CHECK = bytes(4)  # the harness sends no other
_SUBMIT, _MODEL_SUBMIT = int.from_bytes(packet_out_header(None), "big"), 1 << 9
_CPU_PORT_REGISTER, _CPU_PORT_ON = 0x273D018, 0x000F0002
"""pipes[0].pmarb.pgr_reg.pgr_common.port16_ctrl, and the bits that a driver sets: mxbar_en, channel_en."""
_TIMEOUT_S = 600.0


def compile_programs() -> list[Code]:
    """Return `hotset` and the twin, both for `LANES` lanes, compiled once."""
    return [code_of(FOR_TESTS / f"hotline_{LANES}.json"), code_of(TWINS / f"tofino_{LANES}.json")]


class ModelError(Exception):
    """The model cannot be run."""


class PortFrame(NamedTuple):
    """A frame at a port of the model, which the harness prints as `str` does."""

    port: int
    data: bytes

    def __str__(self) -> str:
        return f"{self.port} {self.data.hex().upper()}"


class TwinAnswer(NamedTuple):
    """A frame that the twin sends, and the frame that it answers."""

    sent: PortFrame
    received: PortFrame


def to_model(port: int, data: bytes) -> PortFrame:
    """Translate a frame to the twin. The chip has the port in the low bits of a CPU header."""
    if port != CPU_PORT:
        return PortFrame(port, data)
    header = int.from_bytes(data[:_HEADER_BYTES], "big")
    header = header >> 16 - _PORT_BITS | (_MODEL_SUBMIT if header & _SUBMIT else 0)
    return PortFrame(MODEL_CPU_PORT, header.to_bytes(_HEADER_BYTES, "big") + data[_HEADER_BYTES:])


def from_twin(port: int, data: bytes) -> PortFrame:
    if port != CPU_PORT:
        return PortFrame(port, data)
    ingress_port = int.from_bytes(data[:_HEADER_BYTES], "big") >> 16 - _PORT_BITS
    ingress_port = MODEL_CPU_PORT if ingress_port == CPU_PORT else ingress_port
    return PortFrame(MODEL_CPU_PORT, ingress_port.to_bytes(_HEADER_BYTES, "big") + data[_HEADER_BYTES:])


def answers_of(twin: CompiledPipeline, port: int, data: bytes, now: int) -> list[PortFrame]:
    """Return the twin's answers to a frame with its check sequence, which the chip's parser sees, too."""
    outputs = twin.process(port, data + _FRAME_CHECK, now, now)
    return [from_twin(output.port, output.frame[: -len(_FRAME_CHECK)]) for output in outputs]


def add_command(program: Program, entry: EntryWrite) -> str:
    """Return the harness's command that adds an entry of exact matches."""
    assert isinstance(entry.action, ActionCall)
    [action] = [each for each in program.actions if each.name == entry.action.name]
    fields = zip(program.tables[entry.table].key, entry.key, strict=True)
    arguments = (
        f"{name}:{MODEL_CPU_PORT if value == CPU_PORT and name == 'port' else value:#x}"
        for name, value in zip(action.parameter_names, entry.action.args, strict=True)
    )
    key = " ".join(f"{field.name}:{match:#x}" for field, match in fields)
    return f"add {entry.table} {key} {action.name}({', '.join(arguments)})"


def state_checks(twin: CompiledPipeline) -> Iterator[str]:
    """Yield the harness's commands that compare values and counters with the twin's."""
    for lane in range(LANES):
        values = f"{TWIN_INGRESS}aggregate_{lane:02d}.values"
        for slot, cell in enumerate(twin.cells.read_register(values, 0, SLOTS)):
            yield f"check_register {values} ({slot}) lo = {cell >> _WORD_BITS}"
            yield f"check_register {values} ({slot}) hi = {cell & (1 << _WORD_BITS) - 1}"
    for counter in twin.program.counters:
        for index, count in enumerate(twin.cells.read_counter(counter.name, 0, counter.size)):
            yield f"check_counter {counter.name} ({index}) packets = {count.packets}"


class TwinComparison:
    """Random entries and frames as a script of the harness, and the twin's answers.

    `hotset` has the same entries and gets the same frames, as the next frame is drawn from its state.
    """

    def __init__(self, codes: Sequence[Code], seed: int, n_frames: int) -> None:
        random = Random(seed)
        entries = testnet.network() + hot_set(random, lanes=LANES, dims=DIMS)
        hotset, twin = (CompiledPipeline(*code) for code in codes)
        testnet.write(hotset, entries)
        testnet.write(twin, [for_twin(entry) for entry in entries])
        self.commands = [add_command(twin.program, for_twin(entry)) for entry in entries]
        self.answers: list[TwinAnswer] = []
        source = Source(random, hotset, LANES, dims=DIMS)
        for now in range(n_frames):
            port, data = source.draw()
            received = to_model(port, data)
            self.commands += [f"packet {received}", "wait"]
            hotset.process(port, data, now, now)
            self.answers += [TwinAnswer(sent, received) for sent in answers_of(twin, port, data, now)]
        self.commands += state_checks(twin)

    def differences(self, harness: Path, output: Path) -> list[str]:
        """Run the model; return a text for the first frame and for each cell that differ from the twin's.

        Other messages about the script are returned, too.
        """
        sent, messages = run_model(harness, output, self.commands)
        for number, (frame, answer) in enumerate(zip_longest(sent, self.answers)):
            if answer is None:
                return [f"frame {number}: expected no more, got {frame}", *messages]
            if frame != str(answer.sent):
                expected = f"expected {answer.sent}, got {frame or 'none'}, for {answer.received}"
                return [f"frame {number}: {expected}", *messages]
        return messages


def shift_slices(context: str) -> str:
    """Move values of slices in constant entries of context.json to their places in the whole field.

    There the harness expects them.
    """
    document = json.loads(context)
    for table in document["tables"]:
        first_bits = {field["name"]: field["start_bit"] for field in table.get("match_key_fields", ())}
        for entry in table.get("static_entries", ()):
            for match in entry["match_key_fields_values"]:
                for part in match.keys() & {"value", "mask"}:
                    match[part] = hex(int(match[part], 0) << first_bits[match["field_name"]])
    return json.dumps(document)


def run_model(harness: Path, output: Path, commands: Sequence[str]) -> tuple[list[str], list[str]]:
    """Run a script on the model; return the frames it sends, as `PortFrame` prints them, and its messages.

    Raises `ModelError` if the harness or the compiler's output cannot be used.
    """
    asm = (output / "pipe" / "asm").resolve()
    try:
        context = shift_slices((asm / "context.json").read_text())
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{asm}/context.json: expected the output of bfas: {reason_of(error)}") from None
    with TemporaryDirectory() as folder:
        script, log, cpu_port, tables = (
            Path(folder) / name for name in ("script", "frames", "cpu", "tables")
        )
        cpu_port.write_bytes(b"\0\0\0R" + struct.pack("<II", _CPU_PORT_REGISTER, _CPU_PORT_ON))
        tables.write_text(context)
        loads = [f"load {file}" for file in (cpu_port, asm / "tofino.bin", tables)]
        script.write_text("\n".join([*loads, *commands]) + "\n")
        command = [str(harness), "--observation-log", str(log), str(script)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ModelError(f"{harness}: expected the model's test harness: {reason_of(error)}") from None
        if not log.exists():
            raise ModelError(f"{harness}: expected the model's test harness: it has written no frames")
        messages = [
            line.removeprefix(f"{script}:")
            for line in (done.stdout + done.stderr).splitlines()
            if line.startswith(f"{script}:") and not line.endswith("but 0 is ok")
        ]
        return log.read_text().splitlines(), messages


@click.command()
@click.argument("harness", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(min=1), help="Number of seeds.")
@click.option("--frames", default=1000, show_default=True, type=click.IntRange(min=1), help="Frames a seed.")
def main(harness: Path, output: Path, seeds: int, frames: int) -> None:
    """Compare the open Tofino model with the twin.

    HARNESS is the model's test harness, and OUTPUT the folder given by `-o` to p4c's Tofino backend, for 16
    lanes, with the output of bfas in pipe/asm.
    """
    codes = compile_programs()
    failed = False
    for seed in range(seeds):
        comparison = TwinComparison(codes, seed, frames)
        try:
            found = comparison.differences(harness, output)
        except ModelError as error:
            sys.exit(f"tofino: {error}")
        failed |= bool(found)
        verdict = f"{len(found)} differences" if found else "alike"
        click.echo(f"seed {seed}: {frames} frames, {len(comparison.answers)} answers: {verdict}")
        for difference in found[:20]:
            click.echo(f"  {difference}")
    sys.exit(failed)


if __name__ == "__main__":
    main()

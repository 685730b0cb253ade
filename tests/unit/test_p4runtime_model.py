"""Random batches of writes against a model: results, what is read, and what packets meet."""

from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.control import ControlledPipeline, MakePipeline
from tests.unit.p4runtime.harness import DELETE, INSERT, MODIFY, SCHEMA, config, forward, read, update, write

ADDRESSES, PORTS = range(1, 6), range(1, 4)
Model = dict[int, int]  # the port for an address
Update = tuple[int, int, int]  # kind, address, port

UPDATES = st.tuples(
    st.sampled_from([INSERT, MODIFY, DELETE]), st.sampled_from(ADDRESSES), st.sampled_from(PORTS)
)
BATCHES = st.lists(
    st.tuples(st.sampled_from([*p4r.WriteRequest.Atomicity.values()]), st.lists(UPDATES, max_size=8)),
    max_size=6,
)


def step(model: Model, change: Update) -> str:
    """Do one update on the model, and return the code of the answer."""
    kind, address, port = change
    if kind == INSERT and address in model:
        return "ALREADY_EXISTS"
    if kind != INSERT and address not in model:
        return "NOT_FOUND"
    if kind == DELETE:
        del model[address]
    else:
        model[address] = port
    return "OK"


def answers(model: Model, atomicity: int, batch: list[Update]) -> list[str]:
    """Do a batch on the model."""
    after = dict(model)
    codes = [step(after, change) for change in batch]
    if atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR and set(codes) - {"OK"}:
        return ["ABORTED" if code == "OK" else code for code in codes]
    model.clear()
    model.update(after)
    return codes


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_writes_do_what_the_model_does(make: MakePipeline[Any]) -> None:
    @settings(deadline=None, max_examples=50)
    @given(BATCHES)
    def check(batches: list[tuple[int, list[Update]]]) -> None:
        control = ControlledPipeline(config(), make)
        model: Model = {}
        for atomicity, batch in batches:
            updates = [update(forward(address, port), kind) for kind, address, port in batch]
            results = write(control, *updates, atomicity=atomicity)
            codes = [result.code.name if result else "OK" for result in results]
            assert codes == answers(model, atomicity, batch)
            entries = read(control, fy.P4TableEntry("forward").encode(SCHEMA))
            entries.sort(key=lambda entity: entity.table_entry.match[0].exact.value)
            assert entries == [forward(*item).encode(SCHEMA) for item in sorted(model.items())]
            for address in ADDRESSES:
                outputs = control.pipeline.process(1, address.to_bytes(6, "big") + bytes(58), 0, 0)
                assert [out.port for out in outputs] == ([model[address]] if address in model else [])

    check()

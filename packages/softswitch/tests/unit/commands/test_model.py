"""Any sequence of table commands leaves what a small plain model of BMv2's tables has."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from switch_harness.effort import examples
from switch_harness.p4runtime import CONTROL, ENTITIES
from switch_harness.switch_runtime import ShellSwitch

KEYS, HANDLES = st.integers(0, 5), st.integers(0, 5)
PORTS, PRIORITIES = st.integers(1, 4), st.integers(0, 2)


@dataclass
class Table:
    """Entries in slots: BMv2 fills the first that is empty, and counts how often it was emptied."""

    slots: list[tuple[str, str] | None] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)

    def handle(self, slot: int) -> int:
        return self.emptied[slot] << 24 | slot

    def slot(self, handle: int) -> int | None:
        slot = handle & 0xFFFFFF
        there = slot < len(self.slots) and self.slots[slot] is not None and self.handle(slot) == handle
        return slot if there else None

    def add(self, key: str, action: str) -> int | None:
        if key in [entry[0] for entry in self.slots if entry is not None]:
            return None
        if None not in self.slots:
            self.slots.append(None)
            self.emptied.append(0)
        slot = self.slots.index(None)
        self.slots[slot] = (key, action)
        return self.handle(slot)

    def modify(self, handle: int, action: str) -> bool:
        slot = self.slot(handle)
        if slot is None:
            return False
        entry = self.slots[slot]
        assert entry is not None
        self.slots[slot] = (entry[0], action)
        return True

    def delete(self, handle: int) -> bool:
        slot = self.slot(handle)
        if slot is None:
            return False
        self.slots[slot] = None
        self.emptied[slot] += 1
        return True

    def clear(self) -> None:
        self.slots.clear()
        self.emptied.clear()

    def dump(self) -> list[tuple[int, str, str]]:
        return [(self.handle(slot), *entry) for slot, entry in enumerate(self.slots) if entry is not None]


def dumped(switch: ShellSwitch, table: str) -> list[tuple[int, str, str]]:
    """Handle, key with priority, and action of the entries that `table_dump` shows."""
    text = "\n".join(switch.does(f"table_dump {table}"))
    found = []
    for part in text.split("Dumping entry ")[1:]:
        handle, _, key, *rest = part.split("\n")
        priority = rest.pop(0) if rest[0].startswith("Priority") else ""
        found.append((int(handle, 16), f"{key.split()[-1]} {priority}".strip(), rest[0]))
    return found


COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, PORTS, PRIORITIES),
        st.tuples(st.just("modify"), HANDLES, PORTS, st.integers(0, 2)),
        st.tuples(st.just("delete"), HANDLES, PORTS, st.integers(0, 2)),
        st.tuples(st.just("clear"), st.just(0), PORTS, PRIORITIES),
    ),
    max_size=30,
)


@settings(max_examples=examples(40), deadline=None)
@given(COMMANDS)
def test_random_commands_on_an_exact_table_equal_the_model(commands: list[tuple[str, int, int, int]]) -> None:
    with ShellSwitch(CONTROL) as switch:
        model = Table()
        for command, number, port, version in commands:
            action = f"Action entry: ControlIngress.forward_to - {port:02x}"
            _do(
                switch,
                model,
                command,
                add=(f"table_add forward forward_to {number} => {port}", f"{number:012x}", action),
                modify=(f"table_modify forward forward_to {version << 24 | number} {port}", action),
                table="forward",
                handle=version << 24 | number,
            )
            assert dumped(switch, "forward") == model.dump()
            assert switch.does("table_num_entries forward") == [str(len(model.dump()))]


@settings(max_examples=examples(40), deadline=None)
@given(COMMANDS)
def test_random_commands_on_a_ternary_table_equal_the_model(
    commands: list[tuple[str, int, int, int]],
) -> None:
    """Entries that differ in their priority alone are two; what the mask hides does not count."""
    with ShellSwitch(ENTITIES) as switch:
        model = Table()
        for command, number, port, rank in commands:
            action = f"Action entry: Entities.forward_metered - {port:02x}"
            shown = f"000e Priority: {rank}"
            # `dumped` leaves out what stands before `&&&`: the masked value, which is added below.
            _do(
                switch,
                model,
                command,
                add=(
                    f"table_add metered forward_metered {number}&&&14 => {port} {rank}",
                    f"{number & 14:04x} {shown}",
                    action,
                ),
                modify=(f"table_modify metered forward_metered {rank << 24 | number} {port}", action),
                table="metered",
                handle=rank << 24 | number,
            )
            values = [line.split()[4] for line in switch.does("table_dump metered") if line.startswith("* ")]
            found = [
                (h, f"{v} {k}", a) for (h, k, a), v in zip(dumped(switch, "metered"), values, strict=True)
            ]
            assert found == model.dump()


def _do(
    switch: ShellSwitch,
    model: Table,
    command: str,
    add: tuple[str, str, str],
    modify: tuple[str, str],
    table: str,
    handle: int,
) -> None:
    """The same to both."""
    if command == "clear":
        switch.does(f"table_clear {table}")
        model.clear()
        return
    line = {"add": add[0], "modify": modify[0], "delete": f"table_delete {table} {handle}"}[command]
    if command == "add":
        added = model.add(*add[1:])
        done, printed = added is not None, f"Entry has been added with handle {added}"
    else:
        done = model.modify(handle, modify[1]) if command == "modify" else model.delete(handle)
        printed = ""
    if done:
        message = switch.does(line)
        assert not printed or message[-1] == printed
    else:
        assert switch.refuses(line).startswith("Invalid table operation (")

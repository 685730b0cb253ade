"""`make shell`: p4runtime-shell, unmodified and with locked packages, on a running switch."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

from foundation.checkout import ROOT
from softswitch.processes import softswitch
from switch_harness import PROGRAMS
from tests.harness.shell import SHELL, install, type_into

LOCK = ROOT / "tools" / "scripts" / "shell.lock"
PYTHON = ROOT / ".shell-venv" / "bin" / "python"


@contextmanager
def running(program: Path) -> Iterator[str]:
    """Yield the address of a switch process with a program, and no port but the CPU's."""
    options = [str(program), "--p4info", str(program.with_suffix(".p4info.txtpb"))]
    with softswitch(cpu_port=255, options=options) as switch:
        yield switch.address


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    install()


def test_the_installed_packages_have_the_locked_versions() -> None:
    pins = [Requirement(line) for line in LOCK.read_text().splitlines() if not line.lstrip().startswith("#")]
    locked = {
        canonical(pin.name): str(pin.specifier) for pin in pins if pin.marker is None or pin.marker.evaluate()
    }
    freeze = [str(PYTHON), "-E", "-m", "pip", "freeze", "--all"]
    lines = subprocess.run(freeze, capture_output=True, text=True, check=True).stdout.splitlines()
    installed = {canonical(each.name): str(each.specifier) for each in map(Requirement, lines)}
    assert {name: installed.get(name) for name in locked} == locked
    assert installed.keys() - locked.keys() == {"pip"}


SHELL_SESSION = """
tables
te = table_entry["forward"](action="forward_to")
te.match["dst_addr"] = "02:00:00:00:01:07"
te.action["port"] = "3"
te.insert()
found = list(table_entry["forward"].read())
print("after insert:", len(found), str(found[0]) == str(te))
te.delete()
print("after delete:", len(list(table_entry["forward"].read())))
exit()
"""


def test_p4runtime_shell_shows_tables_and_writes_entries(tmp_path: Path) -> None:
    """Its Python takes no module from the user's PYTHONPATH."""
    (tmp_path / "grpc.py").write_text("raise ImportError")
    with running(PROGRAMS / "control.json") as address:
        lines = type_into(SHELL, SHELL_SESSION, SWITCH=address, PYTHONPATH=str(tmp_path))
    assert [line for line in lines if line.startswith("ControlIngress.")] == [
        "ControlIngress.forward",
        "ControlIngress.pairs",
        "ControlIngress.types",
    ]
    assert [line for line in lines if line.startswith("after")] == ["after insert: 1 True", "after delete: 0"]


ENTITY_SESSION = """
for i in (1, 2):
    m = action_profile_member["paths"](member_id=i, action="forward_to")
    m.action["port"] = str(i)
    m.insert()

g = action_profile_group["paths"](group_id=1)
g.add(2, 3)
g.add(1)
g.insert()
te = table_entry["balanced"]
te.match["dst_addr"] = "02:00:00:00:00:00/16"
te.group_id = 1
te.insert()
print("said group:", [(m.member_id, m.weight) for m in list(action_profile_group["paths"].read())[0].members])
print("said entry:", list(table_entry["balanced"].read())[0].group_id)
te.delete()
g.delete()
print("said members:", len(list(action_profile_member["paths"].read())))
for m in list(action_profile_member["paths"].read()):
    m.delete()


te = table_entry["balanced"]
te.match["dst_addr"] = "02:00:00:00:00:00/16"
a = Action("forward_to")
a["port"] = "5"
te.oneshot.add(a, 2)
te.insert()
print("said one-shot:", len(list(table_entry["balanced"].read())[0].oneshot.actions))
te.delete()

mge = multicast_group_entry(1)
mge.add(1, 0).add(2, 0)
mge.insert()
print("said multicast:", len(list(multicast_group_entry(1).read())[0].replicas))
mge.delete()
cse = clone_session_entry(5)
cse.add(1, 0)
cse.insert()
print("said clone:", len(list(clone_session_entry(5).read())[0].replicas))
cse.delete()

me = meter_entry["rates"]
me.index = 1
me.cir, me.cburst, me.pir, me.pburst = 1, 2, 3, 4
me.modify()
print("said meter:", [each.cir for each in me.read()])
ce = counter_entry["counts"]
ce.index = 1
ce.packet_count = 9
ce.modify()
print("said counter:", [each.packet_count for each in ce.read()])
de = digest_entry["learned_t"]
de.max_list_size = 5
de.insert()
print("said digest:", [each.max_list_size for each in de.read()])
de.delete()
exit()
"""


def test_p4runtime_shell_writes_and_reads_every_kind_of_entity() -> None:
    with running(PROGRAMS / "entities.json") as address:
        lines = type_into(SHELL, ENTITY_SESSION, SWITCH=address)
    assert [line.removeprefix("said ") for line in lines if line.startswith("said")] == [
        "group: [(2, 3), (1, 1)]",
        "entry: 1",
        "members: 2",
        "one-shot: 1",
        "multicast: 2",
        "clone: 1",
        "meter: [1]",
        "counter: [9]",
        "digest: [5]",
    ], lines

"""Machines and links of a run on several, in the first screen and on the page."""

from __future__ import annotations

from analysis.sentences.machines import machine_notes, where_measured
from analysis.sentences.page import caveats, provenance_rows
from tests.harness.records import a_record
from tests.harness.summaries import a_summary
from tests.unit.analysis.test_sentences import NO_ROUND

MACHINES = {
    "alpha": {"switch": True, "hosts": ["p1"], "cpus": 4, "clock_error_us": 51.6},
    "beta": {"switch": False, "hosts": ["w1", "w2"], "cpus": 1},
}
LINKS = {"beta": {"round_trip_us": 129.4, "bandwidth_mbit_s": 9_410.0}}


def test_a_run_on_one_machine_says_nothing_of_machines() -> None:
    assert machine_notes(a_record()) == [] and where_measured(a_record()) == "this machine"


def test_machines_and_links_are_named() -> None:
    record = a_record(machines=MACHINES, links=LINKS)
    assert machine_notes(record) == [
        "Machines: alpha has the switch, p1, 4 CPUs, clock within 52 µs; beta has w1, w2, 1 CPU.",
        "Links to the switch's machine: beta 129 µs round trip, 9,410 Mbit/s.",
    ]
    assert where_measured(record) == "these machines"
    rows = dict(provenance_rows(record, a_summary(NO_ROUND), None))
    assert rows["machine beta"] == "has w1, w2, 1 CPU"
    assert rows["link of beta"] == "129 µs round trip, 9,410 Mbit/s" and "placement" not in rows


def test_without_links_only_machines_are_named() -> None:
    [note] = machine_notes(a_record(machines=MACHINES))
    assert note.startswith("Machines: alpha")


def test_the_caveat_on_latencies_differs_for_one_and_for_several_machines() -> None:
    alone, several = caveats(is_simulated=False), caveats(is_simulated=False, has_machines=True)
    assert alone[1:] == several[1:] and "this machine" in alone[0] and "this machine" not in several[0]

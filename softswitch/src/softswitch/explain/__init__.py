"""Traces of packets: the events that the interpreter reports, as JSON or as a tree.

`events` has the events and their JSON, `record` an observer that collects them, with `shadow`, and `filters`
selects them. `tree` and `lines` print them. `state` and `commands` load the tables and registers to explain
with, `frames` the packets. `cli` is `softswitch explain`, `live` is `softswitch --trace`.
"""

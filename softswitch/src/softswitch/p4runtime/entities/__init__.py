"""The kinds of P4Runtime `Entity`: a module for the writes and reads of each (P4Runtime 1.4 §9).

Tables: `tables`, `default_entries`, `entry_reads`, with `actions` and `entry_actions`; `store` has the
server's own state of them.
Action profiles: `members`, `groups`, `one_shots`, with their state in `profiles`, ordered by `selection`.
Cells: `counters`, `meters`, `registers`, based on `arrays`, with `meter_configs`; those of entries:
`direct_counters`, `direct_meters`, based on `direct`.
Others: `replication` with its `replicas`, `value_sets`, `digests`, `idle_timeouts`.
"""

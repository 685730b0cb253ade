"""The kinds of P4Runtime `Entity`: a module for the writes and reads of each (P4Runtime 1.4 §9).

Tables: `tables`, `default_entries`, `entry_reads`, with `actions` and `entry_actions`; what the server keeps
beside the pipeline's memory: `store`.
Action profiles: `members`, `groups`, `one_shots`, kept in `profiles`, picked in the order of `selection`.
Cells: `counters`, `meters`, `registers` over `arrays`, with `meter_configs`; those of entries:
`direct_counters`, `direct_meters` over `direct`.
The rest: `replication` with its `replicas`, `value_sets`, `digests`, `idle_timeouts`.
"""

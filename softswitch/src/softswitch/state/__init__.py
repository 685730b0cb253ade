"""The control plane's hand in the memory that it shares with the packet function (`softswitch.memory`).

In Python: `memory` the block and its lock · `entries` of tables · `profiles` and `replication`, whose runs
lie in a `pool` · `cells` counters, meters, registers and value sets · `notices` what packets tell.
Compiled: `records` of the hash index · `ranked` masks, ranges and ranks · `write` batches of writes.
"""

"""The control plane's access to the memory that it shares with the packet function (`softswitch.memory`).

In Python: `memory` the block and its lock · `entries` of tables · `profiles` and `replication`, whose runs of
words a `pool` allocates · `cells` counters, meters, registers and value sets · `pipeline` all of these.
Compiled: `records` of the hash index · `ranked` masks, ranges and ranks · `write` batches of writes.
"""

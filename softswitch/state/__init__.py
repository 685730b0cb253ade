"""The control plane's hand in the memory that it shares with the packet function (`codegen.layout`).

In Python: `memory` the block and its lock · `coding` keys and data as words · `entries` of tables ·
`profiles` · `replication` multicast groups and clone sessions · `cells` counters, meters, registers and
value sets · `notices` what packets tell. Compiled: `records` the hash index and the records · `ranked` masks,
ranges and ranks · `write` batches of writes.
"""

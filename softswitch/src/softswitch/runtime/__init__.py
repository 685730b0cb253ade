"""What BMv2's users know from its Thrift server, over gRPC: the service that commands are made of.

`interface` the calls and what they carry · `service` the gRPC side, `client` the other · `switch` all calls
on one switch: `tables`, `profiles`, `cells`, `replication` with its `nodes`, `device`, each over `base` ·
`actions` and `keys` as text, `refusals` errors by BMv2's names.
"""

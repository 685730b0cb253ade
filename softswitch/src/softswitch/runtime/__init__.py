"""The functions of BMv2's Thrift server over gRPC: the service that commands use.

`interface` declares the calls and their data; `service` is the gRPC server, `client` the client. `device` has
all calls on one switch, which are in `tables`, `profiles`, `cells`, `replication` (with `nodes`) and
`device`, based on `base`. `actions` and `keys` convert text, and `refusals` has errors by BMv2's names.
"""

"""BMv2's Thrift services, served by the calls of `runtime` (docs/bmv2.md)."""

"""Conformance: p4c's STF vectors against the softswitch in process, and against BMv2."""

"""Conformance runs: p4c's STF vectors on the pipelines of softswitch in this process, and on BMv2."""

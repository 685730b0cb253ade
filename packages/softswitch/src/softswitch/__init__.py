"""A P4Runtime software switch that compiles p4c's BMv2 JSON to machine code."""

__version__ = "0.2.0"

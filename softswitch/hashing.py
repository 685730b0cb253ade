"""The constant of the tables' hash, which `codegen.tables` emits and `state.records` computes."""

MULTIPLIER = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, odd: Knuth's multiplicative hashing."""

"""Coverage-guided fuzzing of what parses bytes of others: datagrams, frames, logs, configurations.

`python -m tools.fuzz TARGET --seconds N`, or `make fuzz` for a while of each. A target takes bytes and either
accepts them or raises one of our own clear errors; anything else is a finding.

The loop is our own and not atheris. That rewrites byte code, which Numba then cannot compile: neither the
agents nor their plain twins, which are made of the same code, run under it. It has wheels for some of the
Pythons that we support only, sees no more of Polars and Pydantic than we do, and was no faster (3.0.0: 470
executions a second of `libsvm`, 11,000 of `control`). `sys.settrace` is everywhere, and a run by seed and
number of executions repeats to the byte.
"""

"""Coverage-guided fuzzing of what parses bytes of others: datagrams, frames, logs, configurations.

`python -m tests.fuzz TARGET --seconds N`, or `make fuzz` for a while of each. A target takes bytes and either
accepts them or raises one of our own clear errors; anything else is a finding.

The loop is our own and not atheris: that has wheels for some of the Pythons that we support only, its engine
sees neither Polars and Pydantic, which are machine code, nor what Numba compiles, and the plain twins, which
any tracer sees, are what these parsers spend their time in. `sys.settrace` is everywhere, and a run by seed
and number of executions repeats to the byte.
"""

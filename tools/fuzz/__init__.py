"""Coverage-guided fuzzing of parsers of external input: datagrams, frames, logs, configurations.

`python -m tools.fuzz TARGET --seconds N`, or `make fuzz` for all targets in turn. A target takes bytes and
either accepts them or raises a `HotlineError` with a clear message; anything else is a finding.

The loop does not use atheris, which rewrites byte code, so that Numba cannot compile it: neither the agents
nor their pure-Python versions, made of the same code, run under it. It has wheels for only some of the
supported Python versions, traces no more of Polars and Pydantic, and was no faster (3.0.0: 470 executions a
second of `libsvm`, 11,000 of `control`). `sys.settrace` is available everywhere, and a run with a given seed
and number of executions is reproducible.
"""

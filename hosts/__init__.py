"""Worker and parameter-server agents: wire format, state machines, socket loops, models and workloads."""

"""Worker and parameter-server agents: state machines, socket loops, models and workloads."""

"""The process on each machine that builds interfaces and runs agents or the switch for a run."""

"""The phases of a run: make the workload, measure rounds, and account for all updates."""

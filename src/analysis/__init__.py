"""Compute a run's summary, tables, figures and report from the agents' logs."""

"""From the agents' logs of a run to its summary, table, figures and report."""

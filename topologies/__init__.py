"""Run an experiment, or the servers of scripts, in real processes on a Mininet network."""

"""Predict what the switch would do for a cluster, by a few simulated runs and a calculation."""

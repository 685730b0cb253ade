"""Mininet topologies of the testbed, and the runner that drives an experiment on them."""

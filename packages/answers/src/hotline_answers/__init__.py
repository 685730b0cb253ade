"""Predict what a switch would do for a cluster, and one run from another that was measured."""

"""Comparison of cache policies for the keys in the switch, replayed on one log of updates."""

"""Switches that are forks of one process, and share the memory of what it has imported and compiled."""

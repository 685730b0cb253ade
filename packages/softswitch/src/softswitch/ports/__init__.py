"""Ports of the switch. This module imports nothing, so options can be parsed without loading the loop."""

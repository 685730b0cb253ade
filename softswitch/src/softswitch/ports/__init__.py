"""Ports of the switch: AF_PACKET rings, the compiled forwarding loop, and impairments for experiments.

This module imports nothing, so that options can be parsed without loading the loop.
"""

"""Transports of frames to and from other processes, without interfaces or privileges."""

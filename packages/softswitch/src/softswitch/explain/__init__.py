"""Traces of packets: the events that the interpreter reports, as JSON or as a tree."""

"""Designs whose hosts add up dense vectors, in virtual time: under faults, and against the limit of links."""

"""Designs whose hosts add up dense vectors, in virtual time: under faults, and beside what links allow."""

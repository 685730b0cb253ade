"""Common parts of designs in which all workers add up dense vectors."""

"""Common parts of designs in which hosts add up dense vectors without the switch's help."""

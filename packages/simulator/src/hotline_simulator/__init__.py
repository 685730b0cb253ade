"""The testbed in virtual time: the real P4 program and the real agents on one clock, without a network."""

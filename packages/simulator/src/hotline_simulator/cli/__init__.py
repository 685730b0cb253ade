"""The verbs of the simulator."""

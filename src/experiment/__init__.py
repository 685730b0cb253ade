"""A run of any design, real or simulated: its settings, phases and recoveries."""

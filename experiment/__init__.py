"""A run of any design, real or simulated: its settings, its phases, what comes back of what dies."""

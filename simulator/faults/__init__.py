"""Faults in virtual time: schedules of them, played with the real agents, program and controller, and
judged."""

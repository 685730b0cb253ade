"""Fault injection in virtual time: schedules played with the real agents, program and controller."""

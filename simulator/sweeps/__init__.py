"""Sweeps: many simulated runs side by side, and what they show together."""

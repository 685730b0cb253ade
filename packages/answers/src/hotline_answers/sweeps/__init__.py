"""Sweeps: simulated runs along a setting, and figures of them."""

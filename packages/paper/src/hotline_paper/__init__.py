"""Runs and measurements behind the figures of Pan et al. and of this project: `make paper`, `make map`."""

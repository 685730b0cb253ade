"""Runs whose workers are a user's training script."""

"""Measure or fit the costs of a real run, and predict another run with them."""

"""Designs outside the registry, for tests."""

"""Designs of somebody else's, for tests."""

"""The designs of docs/tutorial.md: count, sum, once."""

"""Which tests can a change affect? `python -m tools.affected`, for `make test-changed`."""

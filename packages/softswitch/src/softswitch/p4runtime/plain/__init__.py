"""Writes of exact entries, from the bytes of a request to the tables' words; other writes go to `control`."""

"""Writes of exact entries, from the bytes of a request to the tables' words, without an object an entry.

`scan` finds what a request holds, `encode` makes operations of it, `writer` has them done where all of them
can be. Whatever is unusual or wrong goes the way of all others (`control`), which has the errors.
"""

"""Helpers for Python that numba compiles: decorators, records, references, and a plain-Python form.

Softswitch's data path and the agents of Hotline's testbed are written with it.
"""

"""Python that numba compiles to machine code: decorators, records, references, and a plain-Python form.

Softswitch's data path and the agents of Hotline's testbed are written with it.
"""

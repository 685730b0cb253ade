"""Runs on several machines, on which dask starts a supervisor each."""

"""Frames from and to other processes without interfaces or privileges, as BMv2's device managers have it."""

"""Exercises of a course: their checks, and the child processes in which submissions run."""

"""Answers to the tutorial's exercises: each is a step's design with another program."""

"""Codecs of the values in P4Runtime messages (P4Runtime 1.4 §8); refusals begin with the value's location."""

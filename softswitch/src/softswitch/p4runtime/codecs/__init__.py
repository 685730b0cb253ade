"""Codecs of what P4Runtime messages carry (P4Runtime 1.4 §8); refusals begin with the value's location."""

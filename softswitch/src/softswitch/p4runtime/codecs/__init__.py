"""Codecs of what P4Runtime messages carry (P4Runtime 1.4 §8).

Integers are in `values`, match fields in `matches`, `P4Data` in `data`. They know of no P4Info. What is
malformed they refuse (`status`); its location ("table t, match field f") begins the refusal.
"""

"""What a worker computes between pull and push: fixed-point values in, fixed-point deltas out.

A value is 32-bit two's complement, `scale` units for 1.0, and additions wrap mod 2^32.
"""

from hosts.model.logistic import LogisticRegression
from hosts.model.model import Model
from hosts.model.synthetic import SyntheticGradient

__all__ = ["LogisticRegression", "Model", "SyntheticGradient"]

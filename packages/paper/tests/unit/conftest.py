"""The golden run, made once."""

from tests.unit.golden.conftest import golden

__all__ = ["golden"]

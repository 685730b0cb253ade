"""The parameter server: owns a share of the keys, and moves hot ones into the switch and back."""

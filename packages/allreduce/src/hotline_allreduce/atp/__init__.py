"""Design `atp` (Lao et al., NSDI 2021)."""

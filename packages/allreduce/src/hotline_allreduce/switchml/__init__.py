"""Design `switchml` (Sapio et al., NSDI 2021)."""

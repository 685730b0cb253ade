"""What the switch would do for a cluster: a few simulated runs, and a calculator beside them."""

"""The bench of softswitch: its speed beside BMv2 and beside loops that do no P4 work."""

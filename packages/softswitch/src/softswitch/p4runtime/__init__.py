"""The P4Runtime v1 server of the switch."""

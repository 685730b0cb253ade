"""SwitchML: what workers do where the switch adds up dense vectors, chunk by chunk."""

"""What all rooms stand on: the wire, designs, formats of logs, machine code, switches, errors, settings."""

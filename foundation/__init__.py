"""Code that all other rooms use: the wire format, designs, logs, compiled entry points, errors, settings."""

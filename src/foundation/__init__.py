"""Code that all packages use: the wire format, designs, logs, compiled entry points, errors, settings."""

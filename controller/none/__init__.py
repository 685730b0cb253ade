"""What a controller does where the switch only forwards: routes."""

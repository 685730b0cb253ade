"""SwitchML: what is in the switch's tables."""

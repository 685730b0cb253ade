"""Dense vectors between hosts: what designs share that add them up without the switch's help."""

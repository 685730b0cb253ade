"""Ports of the switch: AF_PACKET rings, the compiled forwarding loop, and impairments for experiments.

Nothing is imported here: reading a rate or an impairment takes none of what the loop needs.
"""

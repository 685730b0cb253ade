"""The compiler of P4_16 for v1model: from source text to the switch's IR, BMv2's JSON and P4Info."""

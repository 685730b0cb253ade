"""The kinds of P4Runtime `Entity`: a module for the writes and reads of each (P4Runtime 1.4 §9)."""

"""The zoo: all designs side by side in virtual time, on the same links and the same vectors."""

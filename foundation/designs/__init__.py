"""Designs of in-network aggregation: what one is (`interface`), and which there are (`registry`)."""

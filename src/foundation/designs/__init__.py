"""Designs of in-network aggregation: their interface (`interface`) and the list of them (`registry`)."""

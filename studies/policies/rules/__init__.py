"""The policies, one a module, each with the `Kind` that it is."""

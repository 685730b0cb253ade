"""A judge of aggregation protocols: which of them survives what may happen to packets and processes."""

"""The worker: pulls parameters, trains on a mini-batch, pushes the update."""

"""The worker: pulls parameters, trains on a mini-batch, and pushes the update."""

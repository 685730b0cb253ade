"""Workloads: the mini-batches of each worker, made once and mapped by every worker process."""

"""Workloads: what each worker touches in each step, made once and mapped by every worker process."""

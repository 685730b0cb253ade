"""Queues between ingress and egress: a FIFO for each port and priority, with a depth and a rate.

Time is an argument, in ns of any monotonic clock. The caller stores the packets; a queue gives each a slot
number.
"""

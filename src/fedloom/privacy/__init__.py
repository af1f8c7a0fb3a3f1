"""What others may learn of a client: epsilon and delta of what was sent, and what secure aggregation would cost."""

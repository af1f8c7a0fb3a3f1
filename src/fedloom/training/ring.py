"""How much of the torch engine's results may be waiting: it decides the memory of a run, which is estimated before one."""

CHUNK = 4  # most jobs in one message to a worker
RING = 3  # messages whose results may be waiting, per worker

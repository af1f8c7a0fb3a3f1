"""A fleet as it stands in a scenario file. Lengths in m, times in s, rates in bit/s, powers in W.

Every part has a `kind`; all but `n_devices` has a default: one cell that reaches everybody, devices in a disc
of 100 m around it, 10 Mbit/s to the edge and among devices, a free backhaul, 0.01 s per local step.
"""

"""Deployment: bits, faults and intruders."""

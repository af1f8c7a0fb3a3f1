"""Models, losses and the local training of many clients."""

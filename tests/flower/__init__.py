"""The adapter to Flower. Left out where flwr cannot be imported."""

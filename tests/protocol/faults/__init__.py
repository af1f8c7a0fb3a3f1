"""The protocol under faults: the machines of `fedloom.protocol`, driven as a real network would, with laws that must hold."""

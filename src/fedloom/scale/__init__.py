"""The same jobs on a Ray cluster: one run whose clients train on many machines, or many runs at a time.

Ray is an extra, `fedloom[ray]`, and is imported only when a cluster is used.
"""

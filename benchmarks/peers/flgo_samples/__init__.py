"""The given samples as a benchmark of FLGo, which wants a package of this shape."""

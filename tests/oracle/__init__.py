"""Our formulas against another implementation. Left out where it cannot be imported."""

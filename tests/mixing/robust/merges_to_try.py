"""All rules, and merges to try them in."""

import numpy as np

from fedloom.mixing import Arrivals, Reports, robust

RULES = {
    "coordinate_median": robust.coordinate_median(),
    "trimmed_mean": robust.trimmed_mean(share=0.25),
    "geometric_median": robust.geometric_median(),
    "krum": robust.krum(f=2),
    "multi_krum": robust.multi_krum(f=2),
    "bulyan": robust.bulyan(f=2),
    "centred_clipping": robust.centred_clipping(radius=2.0),
    "norm_clipping": robust.norm_clipping(norm=2.0),
}
NEUTRAL = {
    "trimmed_mean": robust.trimmed_mean(share=0.0),
    "geometric_median": robust.geometric_median(smoothing=np.inf),
    "multi_krum": robust.multi_krum(f=1, keep=10**6),
    "bulyan": robust.bulyan(f=0),
    "centred_clipping": robust.centred_clipping(radius=np.inf),
    "norm_clipping": robust.norm_clipping(norm=np.inf),
}


def arrivals(m, n_samples=None, staleness=None, client=None):
    return Arrivals(
        client=np.arange(m) if client is None else client,
        n_samples=np.full(m, 10) if n_samples is None else n_samples,
        n_reached=np.ones(m, dtype=np.int64),
        staleness=np.zeros(m, dtype=np.int64) if staleness is None else staleness,
    )


def reports(total, fresh=None):
    total = np.asarray(total, dtype=np.float64)
    fresh = np.ones(len(total), dtype=np.bool_) if fresh is None else np.asarray(fresh)
    return Reports(total=total, reported=total * fresh, staleness=np.zeros(len(total), dtype=np.int64), fresh=fresh)


def models(m, n_params=40, seed=0, spread=1.0):
    """An old model (P,), and m models around another one (m, P)."""
    rng = np.random.default_rng(seed)
    old = rng.normal(size=n_params)
    rows = old + 0.1 + spread * rng.normal(size=(m, n_params)) / np.sqrt(n_params)
    return old.astype(np.float32), rows.astype(np.float32)


def at_edge(rule, old, rows, **facts):
    return robust.at_edge(rule).rule(arrivals(len(rows), **facts), old, rows, np.repeat(old[None], len(rows), axis=0))

"""A picture of how close clients are to each other, and of the clusters that follow (CSAHFL, section 3.3).

Left, the matrix of angles with clients in the order of the dendrogram and a frame around each cluster; right, the number
of clusters against the threshold beta, with the one in use marked.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.grouping import angle_clusters, cluster_counts, merge_tree
from fedloom.grouping.principal_angles import Linkage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINKED = {"complete": "complete linkage", "average": "average linkage (WPGMA)", "single": "single linkage"}
FRAME, LINE, MARK = "#e6550d", "#2166ac", "0.35"
BETAS_DEG = np.linspace(0, 90, 721)


def dendrogram_order(proximity: ArrayLike, linkage: Linkage = "complete") -> NDArray[np.int64]:
    """The clients (K,) from left to right in the dendrogram, so that those of any cluster stand together.

    proximity (K, K): distances in degrees.
    """
    from scipy.cluster.hierarchy import leaves_list

    tree = merge_tree(proximity, linkage)
    return np.asarray(leaves_list(tree), dtype=np.int64) if len(tree) else np.zeros(1, dtype=np.int64)


def draw_proximity(
    proximity: ArrayLike, beta_deg: float, *, linkage: Linkage = "complete", path: Path | None = None
) -> "Figure":
    """The figure; saved too if `path` (.svg, .png, .pdf) is given. It belongs to no window and needs no closing."""
    import matplotlib
    from matplotlib.figure import Figure

    angles = _check.array("proximity", proximity, (None, None))
    cluster = angle_clusters(angles, beta_deg=beta_deg, linkage=linkage)
    order = dendrogram_order(angles, linkage)
    settings: dict[Any, Any] = {"svg.hashsalt": "fedloom", "svg.fonttype": "none", "font.size": 9}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9.6, 4.3), layout="constrained")
        matrix_axes, count_axes = figure.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_matrix(figure, matrix_axes, angles[np.ix_(order, order)], cluster[order])
        _draw_counts(count_axes, angles, beta_deg, int(cluster.max()) + 1, linkage)
        if path is not None:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    return figure


def _draw_matrix(figure: "Figure", axes: Any, angles: NDArray[np.float64], cluster: NDArray[np.int64]) -> None:
    """Angles (K, K) and clusters (K,), both in the order to draw."""
    from matplotlib.patches import Rectangle

    image = axes.imshow(angles, cmap="viridis_r", vmin=0, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="angle (degrees)", shrink=0.9)
    starts = np.flatnonzero(np.diff(cluster, prepend=-1))
    for first, end in zip(starts, [*starts[1:], len(cluster)]):
        size = end - first
        corner = (first - 0.5, first - 0.5)
        frame = Rectangle(corner, size, size, fill=False, edgecolor=FRAME, linewidth=1.6, clip_on=False)
        axes.add_patch(frame)
    axes.set_xlabel("clients in the order of the dendrogram")
    axes.set_title(f"{len(cluster)} clients, {_clusters(len(starts))}", fontsize=10)


def _draw_counts(axes: Any, angles: NDArray[np.float64], beta_deg: float, n_clusters: int, linkage: Linkage) -> None:
    counts = cluster_counts(angles, BETAS_DEG, linkage)
    shown = BETAS_DEG[: int(np.argmin(counts)) + 1]  # up to where the count no longer falls
    right = min(90.0, max(1.1 * float(shown[-1]), 1.7 * beta_deg, 1.0))
    axes.step(BETAS_DEG, counts, where="post", color=LINE, linewidth=1.6)
    axes.axvline(beta_deg, color=MARK, linewidth=0.8, linestyle="--")
    axes.plot([beta_deg], [n_clusters], "o", color=FRAME, markersize=6)
    # the curve falls: free places are above on the right and below on the left of the mark
    on_the_left = beta_deg > 0.6 * right
    axes.annotate(
        f"beta {beta_deg:g}\u00b0: {_clusters(n_clusters)}",
        (beta_deg, n_clusters),
        xytext=(-8 if on_the_left else 8, -14 if on_the_left and n_clusters > 1 else 8),
        textcoords="offset points",
        ha="right" if on_the_left else "left",
    )
    axes.set_xlim(0, right)
    axes.set_yscale("log")
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000) if n <= counts[0]]
    axes.set_yticks(ticks, [f"{n:,}" for n in ticks])
    axes.minorticks_off()
    axes.set_ylim(0.85, 1.25 * counts[0])
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("threshold beta (degrees)")
    axes.set_ylabel("clusters")
    axes.set_title(f"clusters against beta, {LINKED[linkage]}", fontsize=10)


def _clusters(n: int) -> str:
    return f"{n} cluster{'' if n == 1 else 's'}"

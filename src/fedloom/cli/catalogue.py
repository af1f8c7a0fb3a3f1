"""What `fedloom list` shows."""

from collections.abc import Callable
from typing import Any

Rows = list[dict[str, Any]]


def _methods() -> Rows:
    import inspect

    from fedloom.methods import METHODS

    rows = []
    for name, make in METHODS.items():
        method = make()
        options = ", ".join(f"{p.name}={p.default}" for p in inspect.signature(make).parameters.values())
        needs = ", ".join(sorted(method.needs))
        rows.append({"method": name, "what it does": method.summary, "clients reveal": needs, "options": options})
    return rows


def _scenarios() -> Rows:
    from fedloom.simulator.library import descriptions

    return [{"scenario": name, "description": text} for name, text in descriptions().items()]


def _datasets() -> Rows:
    from fedloom.data import DATASETS

    return [
        {
            "dataset": name,
            "what": d.title,
            "train": d.n_train,
            "test": d.n_test,
            "shape": "x".join(map(str, d.shape)),
            "classes": d.n_classes,
            "licence": d.licence,
            "needs": d.needs,
        }
        for name, d in DATASETS.items()
    ]


def _models() -> Rows:
    from fedloom.training.networks import NETWORKS, SEQUENCES

    return [
        {"model": name, "what": (build.__doc__ or "").splitlines()[0]} for name, build in (NETWORKS | SEQUENCES).items()
    ]


def _papers() -> Rows:
    from fedloom.reproduce import PAPERS, load

    return [
        {"paper": paper.key, "what": paper.title, "items": ", ".join(item.key for item in paper.items)}
        for paper in map(load, PAPERS)
    ]


CATALOGUE: dict[str, Callable[[], Rows]] = {
    "methods": _methods,
    "scenarios": _scenarios,
    "datasets": _datasets,
    "models": _models,
    "papers": _papers,
}

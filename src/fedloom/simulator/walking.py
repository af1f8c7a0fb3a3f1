"""Which models of the book another one depends on, each after those that it is made of itself."""

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedloom.simulator.book import Model


def settled_below(roots: "list[Model]") -> "list[Model]":
    """The settled models that the roots are, or depend on, each once, in an order that depends on the recipes only."""
    return [model for model in _walk(roots) if model.settled]


def unsettled(targets: "Iterable[Model]", known: "Container[Model]" = (), states: bool = True) -> "list[Model]":
    """Unsettled models below and including `targets`, each after those it depends on, without those that are known; states: and
    after own states of clients."""
    return [m for m in _walk(targets, known, states) if not m.settled]


def _walk(roots: "Iterable[Model]", known: "Container[Model]" = (), states: bool = True) -> "Iterator[Model]":
    """All models below and including `roots`, each once, dependencies first; does not look behind those that are settled or
    known. states: with the own states of clients."""
    seen: set[Model] = set()
    for root in roots:
        if root in seen or root in known:
            continue
        seen.add(root)
        stack = [(root, iter(_parts(root, states)))]
        while stack:
            model, parts = stack[-1]
            for part in parts:
                if part not in seen and part not in known:
                    seen.add(part)
                    stack.append((part, iter(_parts(part, states))))
                    break
            else:
                stack.pop()
                yield model


def _parts(model: "Model", states: bool) -> "list[Model]":
    return [] if model.settled else [*(part for part, _ in model.models), *begun_with(model, states)]


def begun_with(model: "Model", states: bool = True) -> "list[Model]":
    """What the jobs begin with that a model is made of; states: own states of their clients, too."""
    found = [start for dispatch, at, _ in model.jobs for start in dispatch.starts_of(at)]
    if not states:
        return found
    if model.kept is not None:
        dispatch, position = model.kept
        found.append(dispatch.starts[dispatch.start[position]])
        if dispatch.own is not None:
            found.append(dispatch.own[position])
    for dispatch, at, _ in model.jobs:
        if dispatch.own is not None:
            found += [dispatch.own[j] for j in at.tolist()]
    return found

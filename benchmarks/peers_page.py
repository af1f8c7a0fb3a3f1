"""The page of benchmarks/peers.py: docs/benchmarks.md as a function of its results.

Whether a loop trains the same is judged by the loss of its model after the same number of rounds. The bare loop's losses over
n >= 3 seeds have mean m and standard deviation s; a further draw of the same training lies within t s sqrt(1 + 1/n) of m in
99 of 100 cases, t the quantile of Student's law with n - 1 degrees of freedom. A loop whose mean loss lies within passes.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from scipy.stats import t as student

LEAST_SEEDS, CONFIDENCE, ROUNDING = 3, 0.99, 1e-4
THREADS = " with two threads"
NAMES = {
    "bare": "bare loop",
    "fedavg": "FedLoom, `fedavg`",
    "hierfedavg": "FedLoom, `hierfedavg`, 3 cells",
    "fedjax": "FedJAX",
    "pfl": "pfl",
    "fedlab": "FedLab",
    "flgo": "FLGo",
    "flower": "Flower, simulation",
}
TITLES = {
    "softmax": "Softmax regression",
    "lenet5": "LeNet-5",
    "vgg": "VGG-style network, 5.2 million values",
    "resnet18": "ResNet-18, 11 million values",
}

HEAD = """\
<!-- written by benchmarks/peers.py from benchmarks/peers/results.json -->
# Speed beside other simulators

FedAvg with all clients, whole rounds of local training and averaging, in FedLoom, in a bare loop and in other simulators of
federated learning, one after the other on the same machine. Every loop is given the same clients, samples, first model, number
of steps, batch size and learning rate. FedLoom also keeps its clock, ledger and timeline; evaluation is off everywhere.

- **Bare loop**: two forked processes with one thread each, `nn.Module` and `torch.optim.SGD`: what one would write by hand.
- **Times bare**: speed over that of the bare loop which ran beside it, the median over turns and the range.
- **First round**: seconds from the start of the process to the end of round 1, imports and compilation included; median.
- **Memory**: the most that the process and its children held together, pages they share counted once; median.
- **Same training**: after the same number of rounds, the loss on all samples is compared with that of the bare loop over its
  seeds. A loop passes if its mean loss lies where a further run of the bare loop lies in 99 of 100 cases, or within a
  ten-thousandth of its mean: with one batch a client no order is left to chance, and rounding is all that differs.
  The order of samples is each loop's own.
"""

TAIL = """\
## How they were set up

Each loop is a short script, `benchmarks/peers/NAME_loop.py`, in an environment of its own with pinned packages on top of
FedLoom's torch and numpy. All may use two cores.

- **FedLoom**: the engine that it chooses itself. A cloud round is one edge round, so that `hierfedavg` computes what FedAvg does.
- **FedJAX**: `fed_avg` with its default backend, compiled; `jax.tree_map`, which JAX has no more, is put back.
- **pfl**: `FederatedAveraging` on the simulated backend, two processes by torchrun; samples are shuffled when it
  asks for them. In the first round it asks for metrics, which are empty here.
- **FedLab**: the standalone pipeline with its serial trainer: one process{threads}. torchvision, which it imports,
  finds no operators beside a torch without CUDA; two empty ones are declared.
- **FLGo**: its FedAvg, all clients, one process{threads}; the same of torchvision, and its dataset gets the
  `__getitems__` that current versions of torch demand.
- **Flower**: the message API's `FedAvg` in the simulation on Ray, two actors of one core; telemetry off. Installed without
  dependencies after its other packages, because it asks for a version of certifi that is not published.

## Measured again

<!-- not run: makes environments and takes most of an hour -->
```sh
python benchmarks/peers.py --new        # everything from the beginning, then this page
```

On a machine that is not always idle, `--new --pieces 1` and then `--pieces 1` as often as needed measure a piece at a time: the
bare loop and a few others, in a minute or less. Pieces add up; without `--pieces` all that is still due is measured.
`--page` writes the page again from the results that are there.
"""


def interval(bare: Sequence[float]) -> tuple[float, float]:
    """Where the loss of a further run of the same training lies, from the losses of at least three seeds."""
    n = len(bare)
    if n < LEAST_SEEDS:
        raise ValueError(f"the bare loop needs at least {LEAST_SEEDS} seeds to compare with, got {n}")
    quantile = float(student.ppf((1 + CONFIDENCE) / 2, n - 1))
    mean = statistics.fmean(bare)
    reach = max(quantile * statistics.stdev(bare) * (1 + 1 / n) ** 0.5, ROUNDING * abs(mean))
    return mean - reach, mean + reach


def trains_the_same(bare: Sequence[float], losses: Sequence[float]) -> bool:
    """Whether the mean of a loop's losses lies within the interval; NaN does not."""
    low, high = interval(bare)
    return low <= statistics.fmean(losses) <= high


def page(results: dict[str, Any]) -> str:
    """The text of docs/benchmarks.md."""
    parts = [HEAD]
    for name, case in results["cases"].items():
        pieces = [piece for piece in results["pieces"] if piece["case"] == name]
        parts += [_case(name, case, pieces)] if pieces else []
    parts.append(_conditions(results["pieces"]))
    parts.append(TAIL.format(threads=THREADS))
    return "\n".join(parts)


def _case(name: str, case: dict[str, Any], pieces: list[dict[str, Any]]) -> str:
    shape = "x".join(map(str, case["shape"]))
    present = [loop for loop in NAMES if any(loop in piece["runs"] for piece in pieces)]
    bare = [piece["runs"]["bare"]["loss"] for piece in pieces]
    lines = [
        f"## {TITLES[name]}",
        "",
        f"{case['n_clients']} clients, {case['n_steps']} steps of {case['batch_size']} samples ({shape}) a round, "
        f"learning rate {case['lr']:g}; loss after {case['checked']} rounds.",
        "",
        "| | turns | clients a second | times bare | first round | memory | loss | same training |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(loop, pieces, bare) for loop in present),
        "",
    ]
    if len(bare) >= LEAST_SEEDS:
        low, high = interval(bare)
        lines.append(
            f"Loss of the bare loop over {len(bare)} seeds: {min(bare):.5f} to {max(bare):.5f}; "
            f"a loop passes between {low:.5f} and {high:.5f}."
        )
    reasons = {loop: reason for p in pieces for loop, reason in p["failed"].items() if loop not in present}
    lines += [f"Left out: {NAMES[loop]}, which ended with `{reason}`." for loop, reason in reasons.items()]
    missing = [NAMES[loop] for loop in NAMES if loop not in present and loop not in reasons]
    lines += [f"Not measured here: {', '.join(missing)}."] if missing else []
    return "\n".join(lines) + "\n"


def _row(loop: str, pieces: list[dict[str, Any]], bare: list[float]) -> str:
    pairs = [(piece["runs"][loop], piece["runs"]["bare"]) for piece in pieces if loop in piece["runs"]]
    runs = [run for run, _ in pairs]
    ratios = [run["clients_per_s"] / beside["clients_per_s"] for run, beside in pairs]
    losses = [run["loss"] for run in runs]
    times, same = "1", ""
    if loop != "bare":
        times = f"**{_short(statistics.median(ratios))}** ({_short(min(ratios))} to {_short(max(ratios))})"
        same = "too few seeds"
        if len(bare) >= LEAST_SEEDS:
            same = "yes" if trains_the_same(bare, losses) else "**no**"
    return (
        f"| {NAMES[loop]} | {len(runs)} | {_short(_median(runs, 'clients_per_s'))} | {times} | "
        f"{_median(runs, 'first_round_s'):.1f} s | {_median(runs, 'memory_mb'):.0f} MB | "
        f"{statistics.fmean(losses):.5f} | {same} |"
    )


def _median(runs: list[dict[str, Any]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def _short(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _conditions(pieces: list[dict[str, Any]]) -> str:
    if not pieces:
        return "## Conditions\n\nNothing was measured yet.\n"
    versions: dict[str, str] = {}
    for piece in pieces:
        for run in piece["runs"].values():
            versions |= run["versions"]
    loads, others = [piece["load"] for piece in pieces], [piece["others"] for piece in pieces]
    facts = ("processor", "machine", "date", "commit", "native")
    said = {fact: ", ".join(sorted({piece[fact] for piece in pieces})) for fact in facts}
    return (
        "## Conditions\n\n"
        f"{said['processor']} ({said['machine']}), {said['date']}, FedLoom at {said['commit']} with native kernels for "
        f"{said['native']}. Load average before the pieces {min(loads):.1f} to {max(loads):.1f}; share of the cores that "
        f"other work took in the second before a piece: median {statistics.median(others):.0%}, most {max(others):.0%}.\n\n"
        f"Versions: {', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}.\n"
    )

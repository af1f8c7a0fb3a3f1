"""Which engine trains, what it says about itself, and that a run does not depend on it beyond rounding."""

import importlib
import re
from dataclasses import replace

import numpy as np
import pytest
from test_native_equality import make_jobs, make_task, some_rows, supported_builds
from torch import nn

from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import models, networks
from fedloom.training.choose import LARGE_BATCH, MOST_VALUES, make_engine
from fedloom.training.native import BUILDS, NativeEngine, Unsupported, load_build
from fedloom.training.rule import LocalRule, Optimiser
from fedloom.training.torch_engine import TorchEngine

RULE = LocalRule()


def small_task(model=None):
    return make_task(model or nn.Sequential(nn.Linear(6, 4)), (6,))


@pytest.fixture(autouse=True)
def no_setting_from_outside(monkeypatch):
    monkeypatch.delenv("FEDLOOM_NATIVE", raising=False)


@pytest.fixture
def not_built(monkeypatch):
    real = importlib.import_module

    def missing(name, *args):
        if "_compiled_" in name:
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", missing)


def test_small_networks_are_trained_natively():
    engine, words = make_engine(small_task(), RULE, 0, n_workers=2)
    assert isinstance(engine, NativeEngine) and engine.n_workers == 2
    assert words == f"native ({supported_builds()[0]}), 2 threads"


def test_torch_if_asked_for():
    engine, words = make_engine(small_task(), RULE, 0, n_workers=2, engine="torch")
    assert isinstance(engine, TorchEngine)
    assert words == "torch, 2 processes (as asked for)"


@pytest.mark.parametrize("engine", ["Native", "", "jax"])
def test_an_unknown_engine_is_refused(engine):
    with pytest.raises(ValueError, match="engine must be one of auto, native, torch"):
        make_engine(small_task(), RULE, 0, engine=engine)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Sequential(nn.Linear(6, 4), nn.Sigmoid()), "Sigmoid on vectors is not among its layers"),
        (nn.Sequential(nn.Linear(6, 4)).eval(), "the model is in evaluation mode"),
        (nn.Sequential(nn.Linear(6, 4).requires_grad_(False), nn.Linear(4, 4)), "some parameters are frozen"),
        (nn.ModuleList([nn.Linear(6, 4)]), "ModuleList is not an nn.Sequential"),
    ],
    ids=["sigmoid", "evaluation", "frozen", "list"],
)
def test_what_the_native_engine_cannot_do_torch_does_and_says_why(model, reason):
    engine, words = make_engine(small_task(model), RULE, 0, n_workers=1)
    assert isinstance(engine, TorchEngine)
    assert words.startswith("torch, 1 processes (not native: ") and reason in words
    with pytest.raises(ValueError, match="the native engine cannot train this model: " + re.escape(reason)) as caught:
        make_engine(small_task(model), RULE, 0, engine="native")
    assert not isinstance(caught.value, Unsupported)


def huber(output, target):
    raise AssertionError


def own_optimiser(params):
    raise AssertionError


def of_tokens():
    model = networks.network("lstm", (5,), 4, seed=0, n_tokens=9)
    task = small_task()
    return replace(task, model=model, x_train=np.zeros((19, 5), dtype=np.int32))


def of_two_inputs():
    x = np.zeros(19, dtype=[("image", np.float32, 3), ("words", np.int32, 2)])
    return replace(small_task(), x_train=x)


REASONS = {
    "own loss": (
        lambda: replace(small_task(), loss=huber),
        RULE,
        "it has no loss of your own (huber), only cross-entropy and mse",
    ),
    "loss": (
        lambda: replace(small_task(), loss="multi-label", y_train=np.zeros((19, 4)), y_test=np.zeros((11, 4))),
        RULE,
        "it has no loss multi-label, only cross-entropy and mse",
    ),
    "tokens": (of_tokens, RULE, "it takes inputs that are float32 numbers, not tokens (int32)"),
    "inputs": (of_two_inputs, RULE, "it takes one input, not several by name (image, words)"),
    "optimiser": (
        small_task,
        LocalRule(optimiser=Optimiser("RAdam")),
        "it has no optimiser RAdam, only SGD, Adam and AdamW",
    ),
    "own optimiser": (
        small_task,
        LocalRule(optimiser=Optimiser(own_optimiser)),
        "it has no optimiser of your own (own_optimiser), only SGD, Adam and AdamW",
    ),
    "option": (
        small_task,
        LocalRule(optimiser=Optimiser("AdamW", {"amsgrad": True})),
        "it has no option amsgrad of AdamW",
    ),
    "nesterov": (
        small_task,
        LocalRule(optimiser=Optimiser("SGD", {"momentum": 0.9, "nesterov": True})),
        "it has no option nesterov of SGD",
    ),
    "eps": (small_task, LocalRule(optimiser=Optimiser("Adam", {"eps": 0.0})), "it has no Adam with eps below 1e-30"),
    "block": (
        lambda: make_task(networks.network("squeezenet", (1, 8, 8), 4, seed=0), (1, 8, 8)),
        RULE,
        "it has no layer Fire",
    ),
}


@pytest.mark.parametrize(("make", "rule", "reason"), REASONS.values(), ids=REASONS)
def test_the_reason_names_what_the_native_engine_does_not_have(make, rule, reason):
    with pytest.raises(ValueError, match="the native engine cannot train this model: " + re.escape(reason)):
        make_engine(make(), rule, 0, engine="native")


def test_the_slowest_build_says_why_it_is_used(monkeypatch):
    monkeypatch.setenv("FEDLOOM_NATIVE", "baseline")
    assert make_engine(small_task(), RULE, 0, n_workers=2)[1] == "native (baseline), 2 threads (as FEDLOOM_NATIVE says)"
    monkeypatch.delenv("FEDLOOM_NATIVE")
    baseline = importlib.import_module("fedloom._compiled_baseline")
    monkeypatch.setattr(baseline, "best_instructions", lambda: "baseline")
    words = make_engine(small_task(), RULE, 0, n_workers=2)[1]
    assert words == "native (baseline), 2 threads (this processor has no AVX2, with which it is faster)"


WIDE = {"hidden": (1024, 1024)}


@pytest.mark.parametrize(
    ("model", "shape", "batch_size", "reason"),
    [
        (models.build("vgg", (3, 32, 32), 10, seed=0), (3, 32, 32), 4, "convolutional models"),
        (models.build("mlp", (48,), 6, seed=0, **WIDE), (48,), 2 * LARGE_BATCH, "batches of 128 in models"),
    ],
    ids=["vgg", "wide mlp, large batches"],
)
def test_large_networks_go_to_torch_unless_native_is_asked_for(model, shape, batch_size, reason):
    task = make_task(model, shape, n_test=2, sizes=(2, 2), batch_size=batch_size)
    n_values = sum(p.numel() for p in model.parameters())
    assert n_values > MOST_VALUES
    engine, words = make_engine(task, RULE, 0, n_workers=1)
    assert isinstance(engine, TorchEngine)
    assert f"torch is faster for {reason} as large as this one ({n_values:,} values)" in words
    assert isinstance(make_engine(task, RULE, 0, n_workers=1, engine="native")[0], NativeEngine)


def test_wide_networks_with_small_batches_are_trained_natively():
    model = models.build("mlp", (48,), 6, seed=0, **WIDE)
    task = make_task(model, (48,), n_test=2, sizes=(2, 2), batch_size=LARGE_BATCH)
    assert isinstance(make_engine(task, RULE, 0, n_workers=1)[0], NativeEngine)


def test_without_the_extension_torch_trains_and_says_so(not_built):
    with pytest.raises(Unsupported, match="was not built"):
        load_build()
    engine, words = make_engine(small_task(), RULE, 0, n_workers=1)
    assert isinstance(engine, TorchEngine) and "was not built when FedLoom was installed" in words
    with pytest.raises(ValueError, match="cannot train this model: it was not built"):
        make_engine(small_task(), RULE, 0, engine="native")


@pytest.mark.parametrize("build", supported_builds())
def test_the_environment_chooses_the_build(build, monkeypatch):
    monkeypatch.setenv("FEDLOOM_NATIVE", build)
    assert load_build().__name__ == f"fedloom._compiled_{build}"
    engine, words = make_engine(small_task(), RULE, 0, n_workers=1)
    assert engine.build == build and words.startswith(f"native ({build})")


def test_the_best_build_is_the_default(monkeypatch):
    best = importlib.import_module("fedloom._compiled_baseline").best_instructions()
    assert best in BUILDS and best == supported_builds()[0]
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("FEDLOOM_NATIVE", value)
        assert load_build().__name__.endswith(best)


def test_the_environment_switches_it_off(monkeypatch):
    monkeypatch.setenv("FEDLOOM_NATIVE", "off")
    with pytest.raises(Unsupported, match="switched off by FEDLOOM_NATIVE=off"):
        load_build()
    engine, words = make_engine(small_task(), RULE, 0, n_workers=1)
    assert isinstance(engine, TorchEngine) and "switched off by FEDLOOM_NATIVE=off" in words


def test_nonsense_in_the_environment_is_an_error(monkeypatch):
    monkeypatch.setenv("FEDLOOM_NATIVE", "avx1024")
    message = "FEDLOOM_NATIVE must be one of avx512, avx2, baseline, off; got 'avx1024'"
    for choice in ("auto", "native"):
        with pytest.raises(ValueError, match=message):
            make_engine(small_task(), RULE, 0, engine=choice)
    make_engine(small_task(), RULE, 0, n_workers=1, engine="torch")  # is not concerned


def test_builds_agree_up_to_rounding(monkeypatch):
    model = models.build("lenet5", (1, 16, 16), 4, seed=0)
    task = make_task(model, (1, 16, 16))
    starts = some_rows(model, 1)
    results = []
    for build in supported_builds():
        monkeypatch.setenv("FEDLOOM_NATIVE", build)
        results.append(NativeEngine(task, RULE, 0).train(starts, make_jobs([0, 1, 2], 1)))
    for other in results[1:]:
        assert np.linalg.norm(other - results[0]) <= 1e-5 * np.linalg.norm(results[0] - starts)


@pytest.mark.parametrize("method", ["fedavg", "hierfedavg", "fedprox:mu=0.5"])
def test_a_run_is_the_same_with_either_engine(small, method):
    runs = {e: simulate(scenario(small), method, seed=3, engine=e) for e in ("native", "torch")}
    native, torch = runs["native"], runs["torch"]
    clock = ("cloud_round", "edge_round", "local_steps", "time_s", "energy_j", "bytes", "updates", "late")
    assert [[m[k] for k in clock] for m in native.measures] == [[m[k] for k in clock] for m in torch.measures]
    assert native.ledger.table() == torch.ledger.table()
    for a, b in zip(native.measures, torch.measures):
        assert abs(a["accuracy"] - b["accuracy"]) <= 0.02
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
    start = simulate(scenario(small, ["training.lr=1e-12"]), method, seed=3).row
    assert np.linalg.norm(native.row - torch.row) <= 1e-3 * np.linalg.norm(torch.row - start)


def test_a_simulation_names_its_engine(small):
    method = make_method("fedavg")
    assert Simulation(scenario(small), method, engine="native", n_workers=2).engine_name.startswith("native (")
    assert Simulation(scenario(small), method, n_workers=2).engine_name.startswith("native (")
    name = Simulation(scenario(small), method, engine="torch", n_workers=2).engine_name
    assert name == "torch, 2 processes (as asked for)"
    assert Simulation(scenario(small), method, dry_run=True).engine_name == "none (dry run)"

"""Which device is meant, what is said where it is not there, and that an engine names it."""

import numpy as np
import pytest
import torch
from test_native_equality import make_task
from torch import nn

from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import rows
from fedloom.training.choose import kind_of, make_engine
from fedloom.training.devices import find_device, kept_generators, seed_generator, single_precision
from fedloom.training.native import NativeEngine
from fedloom.training.rule import LocalRule, Optimiser
from fedloom.training.torch_engine import TorchEngine


@pytest.fixture
def there(monkeypatch):
    """Say which devices there are."""

    def say(*devices):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in devices)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in devices)

    say()
    return say


def test_auto_is_cuda_if_there_else_mps_else_cpu(there):
    assert find_device("auto") == "cpu"
    there("mps")
    assert find_device("auto") == "mps"
    there("mps", "cuda")
    assert find_device("auto") == "cuda"
    assert find_device("cpu") == "cpu" and find_device("mps") == "mps"


def test_a_device_that_is_not_there_is_refused_with_what_is(there, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(
        ValueError, match=r"device cuda is not there \(this torch was built without it, version .*\); there is cpu,"
    ):
        find_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    there("mps")
    with pytest.raises(
        ValueError, match=r"device cuda is not there \(torch finds none, .*\); there is mps, cpu, and auto takes mps"
    ):
        find_device("cuda")


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="device must be one of auto, cpu, cuda, mps; got 'gpu'"):
        find_device("gpu")


def test_products_on_cuda_are_of_full_precision_and_settings_are_put_back():
    cudnn = torch.backends.cudnn
    before = (cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark)
    with single_precision("cuda"):
        assert (cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark) == (False, True, False)
    assert (cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark) == before
    with single_precision("cuda", cudnn=False):
        assert not cudnn.enabled
    assert cudnn.enabled
    with single_precision("cpu"):
        assert (cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark) == before


def test_generators_are_seeded_and_put_back():
    before = torch.random.get_rng_state()
    with kept_generators("cpu"):
        seed_generator("cpu", 7)
        a = torch.rand(3)
        seed_generator("cpu", 7)
        assert torch.equal(a, torch.rand(3))
    assert torch.equal(torch.random.get_rng_state(), before)


def task():
    return make_task(nn.Sequential(nn.Linear(6, 4)), (6,))


def test_the_native_engine_is_for_processors(there):
    with pytest.raises(ValueError, match="the native engine cannot train this model: it has no device cuda"):
        make_engine(task(), LocalRule(), 0, engine="native", device="cuda")
    with pytest.raises(ValueError, match="device cuda is not there"):
        make_engine(task(), LocalRule(), 0, device="cuda")
    engine, _ = make_engine(task(), LocalRule(), 0, n_workers=1, device="auto")
    assert isinstance(engine, NativeEngine)  # what is chosen automatically is the faster engine first


def test_names_say_device_number_and_reason(there):
    engine, words = make_engine(task(), LocalRule(), 0, together=8)
    assert isinstance(engine, TorchEngine) and engine.n_workers == 1
    assert words == "torch-cpu, 8 clients at once (not native: it trains client by client, not 8 at once)"
    rule = LocalRule(lr=0.01, optimiser=Optimiser("Adafactor"))
    words = make_engine(task(), rule, 0, n_workers=2, engine="torch", together=8)[1]
    assert words == (
        "torch, 2 processes (as asked for; not 8 clients at once: the optimiser Adafactor may look at more than single values)"
    )
    assert (
        make_engine(task(), LocalRule(), 0, n_workers=2, engine="torch", device="auto")[1]
        == "torch, 2 processes (as asked for)"
    )


@pytest.mark.parametrize("together", [0, -1, True, 2.0])
def test_clients_at_once_are_a_whole_number(together):
    with pytest.raises(ValueError, match="together must be a whole number of at least 1"):
        make_engine(task(), LocalRule(), 0, together=together)


def test_what_of_a_name_decides_the_bits():
    assert kind_of("native (avx512), 2 threads") == "native"
    assert kind_of("torch, 2 processes (not native: it has (this))") == kind_of("torch on 4 Ray actors") == "torch,"
    assert kind_of("torch-cuda, 64 clients at once (as asked for)") == "torch-cuda, 64 clients at once"
    assert kind_of("torch-mps, one client after the other (x)") == "torch-mps, one client after the other"


def test_an_engine_that_trains_one_by_one_on_a_device_says_so():
    engine = TorchEngine(task(), LocalRule(), 0, n_workers=1)
    engine.device = "cuda"
    assert engine.name == "torch-cuda, one client after the other"


def test_a_run_with_many_at_once_is_that_of_one_by_one_up_to_rounding(small, there):
    chosen = scenario(small, ["training.cloud_rounds=2"])
    one = simulate(chosen, "hierfedavg", seed=3, engine="torch", n_workers=1)
    many = simulate(chosen, "hierfedavg", seed=3, device="auto", together=4)
    start = rows.to_row(Simulation(chosen, make_method("hierfedavg"), seed=3, dry_run=True).setting.model)
    assert np.linalg.norm(many.row - one.row) <= 1e-3 * np.linalg.norm(one.row - start)
    assert [m["time_s"] for m in many.measures] == [m["time_s"] for m in one.measures]


def test_an_engine_of_ones_own_takes_no_device(small):
    def own(task, rule, seed):
        raise AssertionError

    with pytest.raises(ValueError, match="device and together belong to engines by name"):
        Simulation(scenario(small), make_method("fedavg"), engine=own, device="auto")

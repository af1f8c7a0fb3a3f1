"""The page beside other simulators is what the committed results give, and its check notices training that is not the same."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import peers  # noqa: E402
import peers_page  # noqa: E402
import plan  # noqa: E402

RESULTS = json.loads((ROOT / "benchmarks" / "peers" / "results.json").read_text(encoding="utf-8"))


def test_the_page_is_what_the_results_give():
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == peers_page.page(RESULTS)


def test_every_loop_of_the_results_trains_the_same():
    assert "**no**" not in peers_page.page(RESULTS)


def test_the_table_of_plans_is_what_their_results_give():
    rows = json.loads(plan.RESULTS.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    assert page.split("<!-- results -->\n")[1].split("<!-- end of results -->")[0] == plan.table(rows)
    assert len({plan.key_of(row) for row in rows}) == len(rows)


def loss(seed, lr=0.01, n_steps=5, batch_size=20, n_clients=20, rounds=10):
    """FedAvg of softmax regression from zeros, batches in the order of `seed`: the loss on all samples afterwards."""
    rng = np.random.default_rng(0)
    classes = rng.normal(size=(10, 50))
    y = rng.integers(0, 10, (20, 100))
    x = classes[y] + rng.normal(size=(20, 100, 50))
    order = np.random.default_rng(seed)
    w = np.zeros((50, 10))
    for _ in range(rounds):
        models = []
        for k in range(n_clients):
            own = w.copy()
            for batch in order.permutation(100).reshape(-1, batch_size)[:n_steps]:
                own -= lr * x[k, batch].T @ (_softmax(x[k, batch] @ own) - np.eye(10)[y[k, batch]]) / batch_size
            models.append(own)
        w = np.mean(models, axis=0)
    return float(-np.log(np.take_along_axis(_softmax(x @ w), y[..., None], -1)).mean())


def _softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


BARE = [loss(seed) for seed in (1, 2, 3)]


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_another_order_of_the_same_batches_passes(seed):
    assert peers_page.trains_the_same(BARE, [loss(seed)])


@pytest.mark.parametrize(
    "wrong",
    [{"lr": 0.0102}, {"n_steps": 4}, {"batch_size": 25, "n_steps": 4}, {"n_clients": 15}, {"rounds": 9}],
    ids=str,
)
def test_training_that_is_not_the_same_does_not_pass(wrong):
    assert not peers_page.trains_the_same(BARE, [loss(4, **wrong)])


def test_a_loss_that_is_no_number_does_not_pass():
    assert not peers_page.trains_the_same(BARE, [float("nan")])


def test_two_seeds_are_too_few_to_compare_with():
    with pytest.raises(ValueError, match="needs at least 3 seeds to compare with, got 2"):
        peers_page.interval([1.0, 1.1])


def results(n_pieces=3, wrong=1.0):
    """Made up: pfl is twice, three times, ... as fast as the bare loop of its piece; FLGo does not run."""

    def run(speed, value):
        return {
            "first_round_s": 2.0, "clients_per_s": speed, "rounds": 3, "memory_mb": 100, "loss": value,
            "versions": {"torch": "2"},
        }  # fmt: skip

    about = {"processor": "P", "machine": "M", "date": "D", "commit": "C", "native": "N", "load": 0.5, "others": 0.02}
    pieces = [
        {
            "case": "softmax", **about, "failed": {"flgo": "no luck"},
            "runs": {"bare": run(10.0 * (i + 1), BARE[i]), "pfl": run(10.0 * (i + 1) * (i + 2), BARE[0] * wrong)},
        }
        for i in range(n_pieces)
    ]  # fmt: skip
    case = {"shape": [4], "n_clients": 5, "n_steps": 6, "batch_size": 7, "lr": 0.01, "checked": 3}
    return {"cases": {"softmax": case, "vgg": case}, "pieces": pieces}


def row_of_pfl(**options):
    return next(line for line in peers_page.page(results(**options)).splitlines() if line.startswith("| pfl |"))


def test_ratios_are_those_to_the_bare_loop_of_the_same_piece():
    assert "| 3 | 60 | **3** (2 to 4) | 2.0 s | 100 MB |" in row_of_pfl()


def test_a_row_says_whether_the_training_was_the_same():
    assert row_of_pfl().endswith("| yes |")
    assert row_of_pfl(wrong=1.05).endswith("| **no** |")
    assert row_of_pfl(n_pieces=2).endswith("| too few seeds |")


def test_who_does_not_run_is_left_out_with_the_reason():
    text = peers_page.page(results())
    assert "Left out: FLGo, which ended with `no luck`." in text
    assert "| FLGo |" not in text and "VGG" not in text


def test_results_without_a_piece_say_that_nothing_was_measured():
    assert "Nothing was measured yet." in peers_page.page(results(n_pieces=0))


def test_pieces_go_on_where_they_ended_and_each_has_the_bare_loop():
    case = peers.CASES["softmax"]
    pieces = peers.due(case, [], list(peers.LOOPS))
    assert all(names[0] == "bare" for names in pieces)
    counts = {name: sum(name in names for names in pieces) for name in peers.LOOPS if name != "bare"}
    assert counts == {name: min(case.turns, peers.LOOPS[name].turns) for name in counts}
    done = [{"runs": dict.fromkeys(names), "failed": {}} for names in pieces[:4]]
    assert peers.due(case, done, list(peers.LOOPS)) == pieces[4:]
    assert peers.due(case, done, ["pfl"]) == [["bare", "pfl"]] * 3


def test_a_loop_that_ends_early_is_an_error_with_its_last_words(tmp_path, monkeypatch):
    script = tmp_path / "ends.py"
    script.write_text("raise SystemExit('no samples')")
    monkeypatch.setitem(peers.LOOPS, "ends", peers.Loop("fedloom", str(script)))
    with pytest.raises(RuntimeError, match="no samples"):
        peers.run(peers.CASES["softmax"], "ends", tmp_path, 0, tmp_path)


def test_memory_is_that_of_the_process_and_its_children(tmp_path):
    child = "import time; held = bytes(range(256)) * 400_000; time.sleep(4)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    _, most = peers.watched([sys.executable, "-c", code], tmp_path)
    assert 100e6 < most < 200e6

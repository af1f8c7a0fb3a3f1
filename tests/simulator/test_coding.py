"""Coded models in whole runs: against a plain loop on softmax regression, bytes by hand, and bits that never change."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedloom._random import key_of
from fedloom.coding import QSGD, Coding, Float16, Float32, TopK
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training import rows
from small import for_method

N_CLASSES, ROUNDS, EDGE_ROUNDS, STEPS, LR = 4, 10, 2, 2, 0.2


@pytest.fixture
def convex(small):
    """Softmax regression with all samples in a batch: its steps can be written down."""
    small["task"]["model"] = {"kind": "softmax"}
    small["training"] |= {
        "batch_size": 500,
        "local_steps": STEPS,
        "edge_rounds": EDGE_ROUNDS,
        "cloud_rounds": ROUNDS,
        "lr": LR,
    }
    return small


def trained(x, y, row):
    """Steps of gradient descent on the mean cross-entropy."""
    w, b = row[:-N_CLASSES].astype(np.float64).reshape(N_CLASSES, -1), row[-N_CLASSES:].astype(np.float64)
    for _ in range(STEPS):
        z = x @ w.T + b
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        error = (p - np.eye(N_CLASSES)[y]) / len(y)
        w, b = w - LR * error.T @ x, b - LR * error.sum(axis=0)
    return np.concatenate([w.ravel(), b]).astype(np.float32)


def largest(row, k):
    """Top-k by sorting: of equal magnitudes the lower index."""
    out = np.zeros_like(row)
    kept = sorted(range(len(row)), key=lambda i: (-abs(row[i]), i))[:k]
    out[kept] = row[kept]
    return out


class Wire:
    """What arrives, with everything a sender keeps in plain dictionaries."""

    def __init__(self, seed, up, down, feedback):
        self.seed, self.code_up, self.code_down, self.feedback = seed, up, down, feedback
        self.left, self.count = {}, {}

    def key(self, kind, sender):
        self.count[kind, sender] = self.count.get((kind, sender), -1) + 1
        return key_of(self.seed, kind, sender, self.count[kind, sender])

    def up(self, kind, sender, row, reference):
        wanted = row - reference + self.left.get((kind, sender), np.float32(0))
        sent = self.code_up(wanted, self.key(kind, sender))
        if self.feedback:
            self.left[kind, sender] = wanted - sent
        return reference + sent

    def down(self, kind, sender, row):
        return self.code_down(row, self.key(kind, sender))


def plain_loop(simulation, wire):
    """Clients average at the edge servers that they reach, these at the cloud: HHFL's equations 7, 9 to 11, which are
    HierFedAVG's where everybody has one edge server."""
    task, cover = simulation.setting.task, simulation.places[0].topology.cover
    n_samples, reached = task.n_samples, cover.sum(axis=0)
    data = [(task.x_train[part].astype(np.float64), task.y_train[part]) for part in task.parts]
    cloud = rows.to_row(simulation.setting.model)
    for _ in range(ROUNDS):
        handed = [wire.down("hand-down", n, cloud) for n in range(len(cover))]
        edges = list(handed)
        for _ in range(EDGE_ROUNDS):
            fetched = [wire.down("fetch", n, row) for n, row in enumerate(edges)]
            arrived = []
            for k in range(len(n_samples)):
                start = np.mean([fetched[n] for n in np.flatnonzero(cover[:, k])], axis=0, dtype=np.float64).astype(
                    np.float32
                )
                arrived.append(wire.up("upload", k, trained(*data[k], start), start))
            weight = cover * n_samples / reached
            edges = [np.average(arrived, axis=0, weights=w).astype(np.float32) for w in weight]
        reported = [wire.up("report", n, row, handed[n]) for n, row in enumerate(edges)]
        cloud = np.average(reported, axis=0, weights=(cover * n_samples / reached).sum(axis=1)).astype(np.float32)
    return cloud


CODINGS = {
    "topk": (":up=topk:up.k=9", lambda row, key: largest(row, 9), lambda row, key: row, True),
    "topk without feedback": (":up=topk:up.k=9:feedback=false", lambda row, key: largest(row, 9), lambda row, key: row, False),
    "qsgd": (":up=qsgd:up.bits=4:down=qsgd:down.bits=12", QSGD(bits=4).coded, QSGD(bits=12).coded, True),
    "float16 down": (":down=float16", lambda row, key: row, lambda row, key: row.astype(np.float16).astype(np.float32), True),
}  # fmt: skip


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("name", ["hierfedavg", "hhfl"])
def test_twenty_edge_rounds_are_the_plain_loop(convex, name, coding):
    text, up, down, feedback = CODINGS[coding]
    simulation = Simulation(scenario(convex), make_method(f"{name}{text}"), seed=3)
    for _ in simulation.rounds():
        pass
    expected = plain_loop(simulation, Wire(3, up, down, feedback))
    found = simulation.result().row
    uncoded = simulate(scenario(convex), name, seed=3).row
    assert np.abs(found - expected).max() < 1e-5 < np.abs(uncoded - expected).max()


@pytest.mark.parametrize("name", ["hierfedavg", "hhfl", "csahfl", "ltc", "fedat"])
def test_float32_both_ways_is_no_coding_bit_for_bit(name):
    made, text = for_method(name)
    a, b = (simulate(scenario(made), m, seed=1) for m in (text, f"{text}:up=float32:down=float32:feedback=false"))
    assert np.array_equal(a.row, b.row) and a.measures == b.measures and a.ledger.table() == b.ledger.table()


@dataclass(frozen=True)
class AsItIs:
    """A codec of one's own, of 32 bits a value, that goes the way of all codecs."""

    def encode(self, row, key):
        return row.tobytes()

    def decode(self, data, n_values, key):
        return np.frombuffer(data, dtype=np.float32)

    def coded(self, row, key):
        return row

    def n_bits(self, n_values):
        return 32 * n_values


@pytest.mark.parametrize("name", ["hierfedavg", "hhfl", "csahfl", "fedat"])
def test_a_codec_that_loses_nothing_changes_nothing_but_the_rounding_of_differences(name):
    made, text = for_method(name)
    method = make_method(text)
    plain, coded = (simulate(scenario(made), m, seed=1) for m in (method, method.with_(up=AsItIs(), down=AsItIs())))
    np.testing.assert_allclose(coded.row, plain.row, atol=1e-6)
    assert coded.ledger.table() == plain.ledger.table()


def run_with(text, **options):
    made, _ = for_method(text.partition(":")[0])
    simulation = Simulation(scenario(made), make_method(text), seed=2, **options)
    for _ in simulation.rounds():
        pass
    return simulation


def test_bytes_are_what_the_codecs_write():
    """Six clients of one cell each; 2 edge rounds in each of 4 cloud rounds. A model of 8 inputs, 8 hidden and 4 outputs has
    8 * 8 + 8 + 8 * 4 + 4 = 108 values. Up: the largest 11 (a tenth), 4 bytes each, and which: 11 indices of 7 bits in planes of
    4, 2 and 1 bits are 6 + 3 + 2 = 11 bytes. Down: half of 4 bytes a value."""
    up, down = 11 * 4 + 11, 108 * 2
    run = run_with("hierfedavg:up=topk:up.share=0.1:down=float16")
    found = {(line["hop"], line["direction"]): line["bytes"] for line in run.result().ledger.table()}
    assert found["device_edge", "up"] == 6 * 2 * 4 * up and found["device_edge", "down"] == 6 * 2 * 4 * down
    assert found["edge_cloud", "up"] == 2 * 4 * up and found["edge_cloud", "down"] == 2 * 4 * down
    plain = run_with("hierfedavg").result().ledger
    assert plain.bytes.sum() == (6 * 2 * 4 + 2 * 4) * 2 * 108 * 4
    assert run.result().ledger.total_j < plain.total_j


def test_seconds_and_joules_are_of_the_bits_that_are_sent(small):
    small["fleet"]["device_edge"] = {"up": {"kind": "rate", "bit_s": 1000.0}, "down": {"kind": "rate", "bit_s": 2000.0}}
    run = Simulation(scenario(small), make_method("hierfedavg:up=sign:down=bfloat16"), dry_run=True, timeline=True)
    for _ in run.rounds():
        pass
    sent = next(iter(run.federation.timeline))
    assert np.allclose(sent.upload_s, (32 + 8 * 14) / 1000, rtol=1e-12)  # a scale, and 108 signs in 14 bytes
    assert np.allclose(sent.fetch_s, 16 * 108 / 2000, rtol=1e-12)


def test_a_size_of_models_that_is_set_is_scaled_as_the_codec_does(small):
    small["model_bits"] = 1e6
    run = Simulation(scenario(small), make_method("hhfl:up=float16"), dry_run=True)
    assert run.world.up_bits == 5e5 and run.world.down_bits == 1e6 and run.world.up_bytes == 62500


CODED = {
    "hierfedavg": "hierfedavg:up=topk:up.share=0.1",
    "hhfl": "hhfl:up=qsgd:up.bits=2:down=qsgd:down.bits=8",
    "csahfl": "csahfl:up=topk:up.share=0.1:down=float16",
    "late": "csahfl:alpha=0:up=topk:up.share=0.1",
    "ltc": "ltc:n_clusters=2:box_s=6:up=topk:up.share=0.1:down=bfloat16",
    "async": "fedat:n_tiers=3:up=topk:up.share=0.1:down=float16",
    "immediate": "hiflash_r:adapt=false:up=sign",
    "own starts": "macfl_r:up=randomk:up.k=20",
    "no cloud": "fedmes:up=topk:up.k=3",
}


@pytest.mark.parametrize("name", CODED)
def test_a_run_goes_on_from_every_round_to_the_same_bits(name):
    whole = run_with(CODED[name], n_workers=1)
    made, _ = for_method(CODED[name].partition(":")[0])

    def new():
        return Simulation(scenario(made), make_method(CODED[name]), seed=2, n_workers=1)

    first = new()
    saved = [first.checkpoint() for _ in first.rounds()]
    assert len(saved) == 5
    for checkpoint in saved[1:]:
        second = new()
        for _ in second.rounds(checkpoint):
            pass
        assert np.array_equal(second.result().row, whole.result().row) and second.measures == whole.measures


def test_a_run_goes_on_from_the_middle_of_a_round_to_the_same_bits():
    text = CODED["late"]
    whole, saved = run_with(text, n_workers=1), []
    made, _ = for_method("csahfl")
    first = Simulation(scenario(made), make_method(text), seed=2, n_workers=1)
    first.call_s, first.on_wave = 0.0, lambda: saved.append(first.checkpoint())
    for _ in first.rounds():
        pass
    assert len(saved) > 4 and any(checkpoint.waves for checkpoint in saved)
    for checkpoint in saved:
        second = Simulation(scenario(made), make_method(text), seed=2, n_workers=1)
        for _ in second.rounds(checkpoint):
            pass
        assert np.array_equal(second.result().row, whole.result().row)


@pytest.mark.parametrize("name", ["hhfl", "late", "async"])
def test_the_number_of_workers_does_not_matter(name):
    one, two = (run_with(CODED[name], n_workers=n).result() for n in (1, 2))
    assert np.array_equal(one.row, two.row) and one.measures == two.measures


@pytest.mark.parametrize("name", sorted(CODED.keys() - {"ltc"}))  # it groups by what is trained
def test_a_dry_run_has_the_same_clock_and_ledger(name):
    real, dry = run_with(CODED[name]), run_with(CODED[name], dry_run=True)
    assert real.result().ledger.table() == dry.result().ledger.table()


def test_what_clients_keep_is_one_row_for_each_that_has_sent(small):
    small["training"]["clients_per_round"] = 1
    run = Simulation(scenario(small), make_method("hierfedavg:up=topk:up.k=5"), seed=2)
    kept = []
    for _ in run.rounds():
        kept.append(len(run.federation.held.sending.residuals))
        assert all(m.settled and not m.models for m in run.federation.held.sending.residuals)
    clients = {int(k) for sent in run.federation.timeline for k in sent.client}
    assert kept[0] == 0 and kept[-1] == len(clients) + 2  # and the two edge servers
    bare = Simulation(scenario(small), make_method("hierfedavg:up=topk:up.k=5:feedback=false"), seed=2)
    for _ in bare.rounds():
        assert not bare.federation.held.sending.residuals


def test_nothing_is_left_out_for_good(convex):
    """With feedback a tenth of the values is enough to come near what is learnt without coding; without, it is not."""
    convex["training"]["cloud_rounds"] = 60
    plain, kept, lost = (
        simulate(scenario(convex), f"fedavg{text}", seed=1).row.astype(np.float64)
        for text in ("", ":up=topk:up.share=0.1", ":up=topk:up.share=0.1:feedback=false")
    )
    assert np.linalg.norm(kept - plain) < 0.5 * np.linalg.norm(lost - plain)


def test_a_head_keeps_its_own_update_as_it_is():
    """Who heads a cluster sends nothing to itself, and so has no residual."""
    run = run_with("ltc:n_clusters=2:box_s=6:up=topk:up.share=0.1")
    heads = set.intersection(*(set(place.topology.host.tolist()) for place in run.places))
    senders = {who for kind, who in run.federation.held.sending._residuals if kind == "upload"}
    assert heads and senders and not senders & heads


def test_parts_are_exchanged_by_with_or_by_name():
    method = make_method("hhfl").with_(up="topk:share=0.01", down=Float16())
    assert method.coding == make_method("hhfl:up=topk:up.share=0.01:down=float16").coding
    assert method.with_(feedback=False).coding == Coding(up=TopK(share=0.01), down=Float16(), feedback=False)
    assert method.with_(coding=Coding()).coding.plain and make_method("hhfl:max_links=1").coding == Coding(up=Float32())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hhfl:up=top", "method hhfl: unknown codec 'top'; did you mean topk?"),
        ("hhfl:up=topk", "give either a share of the values or their number k"),
        ("hhfl:up=qsgd:up.bit=4", "option 'bit=4' of codec qsgd is not known; did you mean bits?"),
        (
            "hhfl:up.share=0.1",
            "option up.share belongs to a codec that is not named; name it before: up=topk:up.share=...",
        ),
        ("hhfl:up=sign:up=sign", "option 'up=sign' is given twice"),
        ("hhfl:down=topk:down.k=2", "down must be a codec that keeps every value to some precision"),
        ("hhfl:feedback=2", "option feedback must be true or false, got '2'"),
        ("hhfl:up", "option 'up' has no value"),
        ("hhfl:feedback.x=2", "option 'feedback.x=2' of method hhfl is not known"),
    ],
)
def test_what_is_wrong_with_a_coding_is_said_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:
        make_method(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)

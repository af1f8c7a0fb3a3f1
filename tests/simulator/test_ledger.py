"""The ledger adds up in bulk what it would have added up one by one, to the last bit."""

import numpy as np
import pytest

from fedloom.simulator import ledger as ledger_module
from fedloom.simulator.ledger import DIRECTIONS, HOPS, NOBODY, Bill, Ledger, Shares


def random_bill(rng):
    aggregator = rng.integers(NOBODY, 5, int(rng.integers(1, 9)))
    shares = Shares.of(aggregator, n_links=1, n_bytes=7, airtime_s=rng.random(len(aggregator)), energy_j=0.1)
    return Bill(
        hop=HOPS[rng.integers(4)],
        direction=DIRECTIONS[rng.integers(2)],
        n_links=int(rng.integers(5)),
        n_parties=int(rng.integers(5)),
        n_bytes=int(rng.integers(10**6)),
        airtime_s=float(rng.random() * 10.0 ** rng.integers(-8, 8)),
        energy_j=float(rng.random() * 10.0 ** rng.integers(-8, 8)),
        shares=shares if rng.random() < 0.8 else None,
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_share_of_a_single_entry_is_what_many_would_come_to(seed):
    """By hand for one; and as the only one of its aggregator among two, where sums are formed."""
    rng = np.random.default_rng(seed)
    who, other = rng.choice(9, 2, replace=False) + NOBODY
    amounts = {
        "n_links": 1,
        "n_bytes": np.array([seed]),
        "airtime_s": float(rng.normal()),
        "energy_j": rng.normal(size=1),
    }
    one = Shares.of(np.array([who]), **amounts)
    two = Shares.of(np.array([who, other]), **{name: np.repeat(value, 2) for name, value in amounts.items()})
    assert one.place.tolist() == [who + 1] and one.n_places == who + 2
    assert np.array_equal(one.amounts, two.amounts[:, two.place == who + 1])


@pytest.mark.parametrize("kept", [1, 7, 4096])
def test_bills_are_added_one_after_the_other_whenever_that_is_done(kept, monkeypatch):
    monkeypatch.setattr(ledger_module, "KEPT", kept)
    rng = np.random.default_rng(kept)
    bills, found = [random_bill(rng) for _ in range(200)], Ledger()
    airtime_s, energy_j = np.zeros((4, 2)), np.zeros((4, 2))
    notes: dict[tuple[str, str], np.ndarray] = {}
    for i, bill in enumerate(bills):
        found.pay([bill])
        at = HOPS.index(bill.hop), DIRECTIONS.index(bill.direction)
        airtime_s[at] += bill.airtime_s
        energy_j[at] += bill.energy_j
        if bill.shares is not None:
            mine = notes.setdefault((bill.hop, bill.direction), np.zeros((4, 6)))
            for place, amounts in zip(bill.shares.place, bill.shares.amounts.T):
                mine[:, place] += amounts
        if i % 31 == 0:  # somebody looks
            np.testing.assert_array_equal(found.airtime_s, airtime_s)
    np.testing.assert_array_equal(found.energy_j, energy_j)
    assert found.bytes.sum() == sum(b.n_bytes for b in bills) and found.links.sum() == sum(b.n_links for b in bills)
    assert found.parties.sum() == sum(b.n_parties for b in bills)
    lines = found.by_aggregator()
    for hop, direction, who, energy, airtime in zip(
        lines["hop"], lines["direction"], lines["aggregator"], lines["energy_j"], lines["airtime_s"]
    ):
        assert notes[hop, direction][3, who - NOBODY] == energy and notes[hop, direction][2, who - NOBODY] == airtime
    assert len(lines["hop"]) == sum(np.count_nonzero(values.any(axis=0)) for values in notes.values())
    assert len(found.by_aggregator()["hop"]) == 0

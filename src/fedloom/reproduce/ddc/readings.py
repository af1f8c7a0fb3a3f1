"""What DDC leaves open, and the ways to read it that were tried."""

from fedloom.reproduce.ddc.published import CAPACITIES
from fedloom.reproduce.ddc.setups import FACTORS
from fedloom.reproduce.paper import Reading


def _energy_readings() -> tuple[Reading, ...]:
    """Joules at alpha 0, 0.3, 0.5, 0.7 and 1 with capacity 20, and the span with 10, where the page does not have them.

    Of one layout, by a separate program, before this page was made; published: 101, 117, 132, 154, 168 J.
    """
    tried = {
        "literal: 1 MHz for every link": "on this page: some twenty times too low",
        "shared: 1 MHz for all devices together": "on this page: too high, too flat",
        "per_global: as shared, members once for two rounds": "on this page: nearest, and flatter than published",
        "members as shared, heads share 1 MHz": "182, 185, 190, 196, 229 J; capacity 10: 166 to 221",
        "1 MHz shared inside each cluster, and by heads": "44, 44, 46, 43, 45 J; capacity 10: 29 to 37",
        "1 MHz for every link, twice the uploads": "10.7, 10.9, 11.1, 13.4, 19.9 J; capacity 10: 16 to 20",
        "1 MHz for every link, downlinks at 10 mW too": "66, 66, 67, 68, 72 J; capacity 10: 68 to 72",
        "1 Mbit/s at every distance": "44 to 42 J; capacity 10: 43 to 42",
        "a band fitted to 132 J at alpha 0.5": "126, 129, 132, 141, 171 J with 16.6 kHz; capacity 10: 121 to 158 with 17.7 kHz",
    }
    return tuple(
        Reading(of="joules", tried=f"{what}, capacity {capacity}", outcome=found)
        for what, found in tried.items()
        for capacity in CAPACITIES
    )


READINGS = (
    *_energy_readings(),
    Reading(of="c(C)", tried="mean over clusters", outcome="as published; kept"),
    Reading(of="c(C)", tried="mean over devices (`weighting=size`)", outcome="in the rows “by size” of Table 2"),
    Reading(of="how often FedAvg averages", tried="every round", outcome="as stated; FedAvg in all tables"),
    Reading(of="how often FedAvg averages", tried="every second round, as heads report", outcome="“FedAvg, seldom”"),
    Reading(of="which model is scored", tried="the server's", outcome="kept; the verdicts are about it"),
    Reading(of="which model is scored", tried="the heads', in the mean", outcome="beside the server's in Table 1"),
    Reading(of="which model is scored", tried="the devices', in the mean", outcome="in Table 1 at paper scale"),
    Reading(
        of="which model is scored",
        tried="heads' of clustered methods, devices' of FedAvg",
        outcome="in Table 1 at paper scale; a probe with one seed had a gap of 9.4 points (published 9.8), in another order",
    ),
    Reading(of="200 rounds", tried="local ones", outcome="kept; the verdicts are about them"),
    Reading(of="200 rounds", tried="global ones, 400 local ones", outcome="in Table 1 at paper scale"),
    Reading(
        of="200 rounds",
        tried="global ones, which are 400 local ones of clustered methods and 200 of FedAvg",
        outcome="in Table 1 at paper scale",
    ),
    Reading(of="D_ref", tried="1 m, as printed", outcome="alpha has no effect until it is almost 1"),
    Reading(of="D_ref", tried="metres of everybody to the server", outcome="kept"),
    *(
        Reading(of="D_ref", tried=f"{factor:g} times the kept one", outcome="joules in an item of their own")
        for factor in FACTORS
        if factor != 1
    ),
)

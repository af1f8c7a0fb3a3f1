"""What LTC leaves open, and the ways to read it that were tried."""

from fedloom.reproduce.paper import Reading

READINGS = (
    Reading(
        of="scale of the inputs",
        tried="pixels in [0, 1]",
        outcome="first rows of Tables 6 and 7: 31.0 to 32.2 % for all four methods (3 seeds), hardly a difference",
    ),
    Reading(
        of="scale of the inputs",
        tried="standardised per channel",
        outcome="kept; chosen after seeing the other, and one run each of A and 1.1",
    ),
    Reading(
        of="learning rate for the magnet at laptop scale",
        tried="0.02",
        outcome="ends at 46 mm, an untrained model: says nothing about errors below 5 mm",
    ),
    Reading(
        of="learning rate for the magnet at laptop scale",
        tried="0.3",
        outcome="kept; ends at 14.6 mm and 11.5 degrees (1.1, one seed)",
    ),
)

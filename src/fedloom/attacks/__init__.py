"""What hostile participants do: to what they send, to their data, and in what they say of themselves.

One short file for each attack, pure functions of arrays. An update is seen as a change d = w - s (P,) of the model s that a
client was sent; an attack makes another change of it (`alone`), or of those of several (`together`): clients that conspire send
what one of them worked out. What of it is not finite is rejected when it arrives, as any other update. `settings` says how a
scenario names them, `who` draws who is hostile.
"""

from fedloom.attacks.alie import a_little, supporters_z
from fedloom.attacks.alone import alone, altered
from fedloom.attacks.ipm import inner_product
from fedloom.attacks.label_flip import flipped
from fedloom.attacks.min_max import min_max
from fedloom.attacks.settings import HostileSettings
from fedloom.attacks.together import together
from fedloom.attacks.trigger import stamped
from fedloom.attacks.who import hostile_cells, hostile_devices

__all__ = [
    "HostileSettings",
    "a_little",
    "alone",
    "altered",
    "flipped",
    "hostile_cells",
    "hostile_devices",
    "inner_product",
    "min_max",
    "stamped",
    "supporters_z",
    "together",
]

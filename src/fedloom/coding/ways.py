"""How models are coded on their two ways, as a method holds it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.coding.float32 import Float32
from fedloom.coding.gaussian import Gaussian
from fedloom.coding.interface import Codec
from fedloom.coding.masked import masked
from fedloom.coding.randomk import RandomK
from fedloom.coding.sign import Sign
from fedloom.coding.topk import TopK


@dataclass(frozen=True, kw_only=True)
class Coding:
    """What is sent of a model, up and down."""

    up: Codec = Float32()  # noqa: RUF009 - frozen
    """Of the difference between a model that goes up and the one that had been sent down for it, which both sides know."""
    down: Codec = Float32()  # noqa: RUF009
    """Of the model itself, as who is sent one may know none before: a codec that keeps every value to some precision."""
    feedback: bool = True
    """What could not be sent up is kept by its sender, and added to what it sends next (`with_feedback`)."""

    def __post_init__(self) -> None:
        for name, way in (("up", self.up), ("down", self.down)):
            if isinstance(way, type) or not isinstance(way, Codec):
                raise ValueError(f'{name} must be a codec, such as QSGD(bits=4) or codec("qsgd:bits=4"), got {way!r}')
        if isinstance(self.down, Gaussian):
            raise ValueError(
                "down must not be gaussian: it is clients whom noise protects, on their way up; take up=gaussian, or noise at "
                "aggregators (fedloom.mixing.private_mean)"
            )
        if isinstance(self.down, Sign | TopK | RandomK):
            raise ValueError(
                f"down must be a codec that keeps every value to some precision, such as float16 or qsgd, got {self.down}: "
                f"who is sent a model may know none that it could be a difference to"
            )

    @property
    def codes_up(self) -> bool:
        """Models do not go up as they are."""
        return not isinstance(self.up, Float32)

    @property
    def private(self) -> Gaussian | None:
        """The mechanism by which clients protect what they send, if they do."""
        return self.up if isinstance(self.up, Gaussian) else None

    @property
    def codes_reports(self) -> bool:
        """Aggregators code what they send up, as clients do; not what protects clients, who are protected already."""
        return self.codes_up and self.private is None

    @property
    def keeps(self) -> bool:
        """Who sends up keeps what it could not send. Not noise: sent later, it would be taken away again."""
        return self.codes_up and self.feedback and self.private is None

    @property
    def codes_down(self) -> bool:
        """Models do not go down as they are."""
        return not isinstance(self.down, Float32)

    @property
    def plain(self) -> bool:
        """Models go as they are: nothing is to be done, and nothing is rounded."""
        return not (self.codes_up or self.codes_down)

    def bits(
        self,
        n_values: int,
        plain_bits: float,
        trainable: NDArray[np.bool_] | None = None,
        width: int | None = None,
    ) -> tuple[float, float]:
        """Of a model of n_values numbers as it goes up and down: what its codec writes. If it is counted as another number of
        bits than 32 for each (`model_bits`), in the same proportion. width: numbers with those that travel beside the model;
        trainable (width,): what is coded, if not all."""
        exact = [float(masked(codec, trainable).n_bits(width or n_values)) for codec in (self.up, self.down)]
        as_it_is = 32.0 * n_values
        up, down = exact if plain_bits == as_it_is else [plain_bits * (bits / as_it_is) for bits in exact]
        return up, down

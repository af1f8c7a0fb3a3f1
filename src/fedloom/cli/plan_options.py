"""Options of `fedloom plan` that say what a fleet is like, and what to do with it."""

from typing import Annotated

import typer

BandSharing = Annotated[
    str,
    typer.Option(
        metavar="own|time|equal",
        help="Links of a cluster have a band each, or share one: in turn, or in equal parts.",
    ),
]
ServerSharing = Annotated[
    str | None, typer.Option(metavar="own|time|equal", help="The same of links with the server [as --sharing].")
]
ComputeWatts = Annotated[float, typer.Option(min=0, max=1e9, help="Watts of a device while it trains.")]
LeaveOut = Annotated[
    bool, typer.Option("--leave-out", help="Plan without the devices that nothing reaches, and name them.")
]
Rotate = Annotated[bool, typer.Option("--rotate", help="Let heads take turns, so that batteries last longer.")]
Capacity = Annotated[
    int | None, typer.Option(min=1, help="Most devices of a head, itself included [a fifth of all, at least 10].")
]

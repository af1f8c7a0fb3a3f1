"""Devices, coverage cells, links, compute speeds and mobility; a snapshot of them per round."""

from fedloom.fleet import cells, compute, links, mobility, placement
from fedloom.fleet.fleet import Fleet
from fedloom.fleet.settings.air import AirSettings, Downward, Peers, Sharing, ToServer
from fedloom.fleet.settings.cells import ExplicitCells, GridCells, SingleCell
from fedloom.fleet.settings.compute import ClassesLaw, ComputeSettings, FixedLaw, NormalLaw, UniformLaw
from fedloom.fleet.settings.devices import DeviceSettings
from fedloom.fleet.settings.fleet import FleetSettings, Redraw
from fedloom.fleet.settings.links import (
    DeviceCloud,
    DeviceEdge,
    DrawnLinks,
    EdgeCloud,
    FixedLink,
    FreeLink,
    GivenLinks,
    Interference,
    RadioLink,
    RateLink,
)
from fedloom.fleet.settings.mobility import MobilitySettings, WaypointMobility
from fedloom.fleet.settings.path_loss import FreeSpaceLoss, LogDistanceLoss, Tr38901Loss
from fedloom.fleet.settings.placement import (
    CellsPlacement,
    CoordinatesPlacement,
    DiscPlacement,
    RectanglesPlacement,
    SquarePlacement,
    ThreeCellsPlacement,
)
from fedloom.fleet.snapshot import Link, Snapshot

__all__ = [
    "Fleet",
    "Snapshot",
    "Link",
    "FleetSettings",
    "DeviceSettings",
    "AirSettings",
    "Sharing",
    "Downward",
    "Peers",
    "ToServer",
    "SingleCell",
    "GridCells",
    "ExplicitCells",
    "DiscPlacement",
    "SquarePlacement",
    "RectanglesPlacement",
    "CellsPlacement",
    "ThreeCellsPlacement",
    "CoordinatesPlacement",
    "FreeLink",
    "FixedLink",
    "RateLink",
    "RadioLink",
    "DrawnLinks",
    "GivenLinks",
    "LogDistanceLoss",
    "FreeSpaceLoss",
    "Tr38901Loss",
    "Interference",
    "DeviceEdge",
    "EdgeCloud",
    "DeviceCloud",
    "ComputeSettings",
    "FixedLaw",
    "UniformLaw",
    "NormalLaw",
    "ClassesLaw",
    "Redraw",
    "MobilitySettings",
    "WaypointMobility",
    "cells",
    "compute",
    "links",
    "mobility",
    "placement",
]

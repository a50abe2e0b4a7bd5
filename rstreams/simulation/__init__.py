"""Deterministic simulation: nodes, clients and programs in one process, in virtual time, from one seed.

    with simulation(7) as world:
        url = world.node("shop", declare)
        world.start(customer, url, name="customer")
        world.at(2.0, world.kill, "shop")

`rstreams.simulation.history` and `rstreams.simulation.checker` write and judge histories of any system.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rstreams.simulation.surroundings import SimulationError
    from rstreams.simulation.world import World, simulation

__all__ = ["SimulationError", "World", "simulation"]

_MODULES = {"SimulationError": "surroundings", "World": "world", "simulation": "world"}


def __getattr__(name: str) -> object:
    """Import a public name when it is used: the checker needs none of them."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return __all__

"""Who can still subscribe to a group or window that has no subscriber yet: found by the references to it.

Theory of operation. Nobody subscribes to a stream without a reference to it. The walk begins at the stage that feeds
the parts, and goes on to all stages that it reaches, and to what these keep: lists, tuples, publishers made of other
publishers, what their functions have caught. It counts the references that it comes by. If Python has counted just as
many for a part, and for each thing on the way to it, then only the stages found have it: they are its keepers. One
reference more belongs to somebody else, who may subscribe at any time. So does a weak reference.

What the walk does not know it leaves out. Then references are missing, and the part counts as known to somebody else.
It asks for the type of a thing, never for its `__class__`: a proxy would run code of its user to answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import is_dataclass
from functools import partial
from gc import get_referents
from itertools import chain, compress, islice
from sys import getrefcount
from types import BuiltinMethodType, CellType, FunctionType, MethodType
from typing import Any, Final
from weakref import getweakrefcount

from rstreams._core.sight import Fluent, Scannable, Watched
from rstreams._stages.intake import Intake
from rstreams._stages.item_list import ItemList, ListedItem
from rstreams._stages.part import LiveParts, Part

_MOST: Final = 10_000
"""The most things that the walk looks at: a larger pipeline gives no answer."""

_items = iter([0])
_WALKED: Final = (
    *(type(_items), type(iter(())), type(_items.__next__), chain, compress, islice, map, filter),
    *(list, tuple, dict, set, frozenset, deque),
    *(CellType, FunctionType, MethodType, BuiltinMethodType, partial),
    *(Scannable, Watched, Fluent, Intake, ItemList, ListedItem, LiveParts),
)

_one = [object()]
_OF_A_LIST: Final = getrefcount(_one[0])
"""What Python counts for a thing that only a list has."""


def keepers_of(parts: Collection[int], feeding: Scannable) -> list[Scannable] | None:
    """Return the stages that keep parts without a subscriber; None if anybody else may have one.

    Args:
        parts: The ids of the parts; whoever holds the parts themselves is somebody else.
        feeding: The stage that feeds them, which has them all.
    """
    if not parts:
        return []
    things, owners, places = _reached_from(feeding)
    keepers: dict[int, Scannable] = {}
    due = [places[part] for part in parts if part in places]
    seen = set(due)
    if len(things) > _MOST or len(due) < len(parts):
        return None
    while due:
        place = due.pop()
        if getrefcount(things[place]) - _OF_A_LIST != len(owners[place]) or getweakrefcount(things[place]):
            return None
        for owner in owners[place]:
            stage = _stage_of(things[owner])
            if stage is not None:
                keepers[id(stage)] = stage
            elif owner not in seen:
                seen.add(owner)
                due.append(owner)
    keepers.pop(id(feeding), None)
    return list(keepers.values())


def _reached_from(first: Scannable) -> tuple[list[Any], list[list[int]], dict[int, int]]:
    """Return all that is reached, for each of these the places of those that refer to it, and the place of each id."""
    things: list[Any] = [first]
    owners: list[list[int]] = [[]]
    places = {id(first): 0}
    for at, thing in enumerate(things):
        for each in _referents(thing):
            place = places.setdefault(id(each), len(things))
            if place == len(things):
                if place > _MOST:
                    return things, owners, places
                things.append(each)
                owners.append([])
            owners[place].append(at)
    return things, owners, places


def _referents(thing: object) -> Iterator[object]:
    if isinstance(thing, FunctionType):
        caught = (thing.__closure__, thing.__defaults__, thing.__kwdefaults__)
        return (each for each in caught if each is not None)
    return (each for each in get_referents(thing) if _is_walked(each))


def _is_walked(thing: object) -> bool:
    kind = type(thing)
    return issubclass(kind, _WALKED) or (is_dataclass(kind) and not issubclass(kind, type))


def _stage_of(thing: object) -> Any:  # noqa: ANN401 - a `Scannable`, or None
    """Return what does what it does by itself, or when it is called: not so a part without a subscriber."""
    if type(thing) is LiveParts:
        return thing.stage
    return thing if issubclass(type(thing), Scannable) and not (isinstance(thing, Part) and not thing.taken) else None

"""Claims on what is gathered: who changes where holds come from changes where claims come from, too."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rstreams._core.claims import (
    DONE,
    EACH_HOLD,
    NO_HOLD,
    RELEASED,
    Claims,
    Ending,
    Settles,
    claims_on,
    is_gone,
    loosen,
)
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._stages.stage import Stage
from rstreams.abc import Publisher
from rstreams.operators.count import count
from rstreams.operators.map import map as map_
from rstreams.operators.materialize import materialize
from rstreams.operators.on_error_return import on_error_return
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber


def _all_stages() -> list[type[Stage[Any, Any]]]:
    for package in ("operators", "net", "node", "sources", "observables"):
        path = importlib.import_module(f"rstreams.{package}").__path__
        for module in pkgutil.walk_packages(path, f"rstreams.{package}."):
            importlib.import_module(module.name)
    found: list[type[Stage[Any, Any]]] = []
    left: list[type[Stage[Any, Any]]] = [Stage]
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    return found


def test_a_stage_that_changes_hold_changes_gather() -> None:
    stages = _all_stages()
    assert len(stages) > 60
    for kind in stages:
        assert kind.hold is Stage.hold or kind.gather is not Stage.gather, kind


@pytest.mark.parametrize("operator", [materialize, lambda source: on_error_return(source, 9)])
def test_no_item_of_the_source_is_claimed_for_one_that_stands_for_its_end(
    operator: Callable[[Publisher[int]], Publisher[Any]],
) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    count(map_(operator(source), lambda item: item)).subscribe(probe)
    probe.request(1)
    source.next(1, 2)
    source.error(LookupError())
    assert probe.items == [3]
    assert source.outcomes == ["done", "done"]


def test_a_source_that_needs_no_acknowledgement_costs_nothing() -> None:
    probe = ProbeSubscriber[int]()
    map_(from_iterable([1]), abs).subscribe(probe)
    assert probe.subscription is not None
    assert gather(probe.subscription, loose=True) is None


@pytest.mark.parametrize("end", ["done", "failed", "released"])
def test_claims_on_items_of_any_source(end: str) -> None:
    source = ManualPublisher[int]()
    claims: list[ClaimsInOrder] = []

    class Gatherer(ProbeSubscriber[int]):
        def on_next(self, item: int) -> None:
            del item
            claims[0].keep()

    source.subscribe(Gatherer(3))
    claims.append(ClaimsInOrder(source.hold, loose=True))
    source.next(1, 2)
    assert (len(claims[0]), claims[0].gone, source.outcomes) == (2, False, [None, None])
    claims[0].loosen()
    {"done": claims[0].done, "failed": lambda: claims[0].fail(ValueError()), "released": claims[0].release}[end]()
    assert source.outcomes == [end, end]


class Window:
    """Holds whose items a source settles itself when they are loose."""

    def __init__(self) -> None:
        self.loose = self.gone = False
        self.told: list[str] = []

    def done(self) -> None:
        self.told.append("done")

    def fail(self, error: BaseException) -> None:
        self.told.append(str(error))

    def release(self) -> None:
        self.told.append("released")

    def loosen(self) -> None:
        self.loose = True


def test_an_item_is_held_loosely_when_all_who_hold_it_are_loose() -> None:
    below = Window()
    shared = claims_on(below)
    firm, loose = shared.hold(), shared.hold()
    shared.loosen()
    shared.loosen()
    loosen(loose)
    assert not below.loose
    firm.done()
    assert below.loose
    assert not shared.gone
    below.gone = True
    assert shared.gone
    shared.done()
    loose.release()
    assert below.told == ["released"]
    assert is_gone(loose)


def test_holds_whose_items_have_gone_are_forgotten() -> None:
    made: list[Window] = []

    class Source:
        def request(self, n: int) -> None: ...
        def cancel(self) -> None: ...
        def hold(self) -> Any:  # noqa: ANN401
            made.append(Window())
            if len(made) > 10:
                made[-11].gone = True  # there is room for ten
            return made[-1]

    claims = ClaimsInOrder(Source().hold, loose=True)
    for _ in range(1000):
        claims.keep()
        assert len(claims) <= 64
    claims.release()
    assert sum(window.told == ["released"] for window in made) <= 64
    assert all(window.told for window in made)
    assert NO_HOLD is not made[0]


class Source(Settles):
    """Notes the outcomes of places, and calls a function at the first one."""

    def __init__(self) -> None:
        self.told: list[tuple[int, Ending]] = []
        self.at_first: Callable[[], None] = lambda: None

    def settle(self, epoch: int, places: Sequence[int], how: Ending) -> None:
        assert epoch == 0
        self.told += [(place, how) for place in places]
        at_first, self.at_first = self.at_first, lambda: None
        at_first()


@pytest.mark.parametrize("how", ["release", "done", "take"])
def test_items_that_are_done_are_done_whatever_their_source_does_at_the_first_of_them(how: str) -> None:
    source = Source()
    claims = ClaimsInOrder(lambda: NO_HOLD, loose=False)
    for places in ((1,), (2,), (3, 4)):
        claims.put(Claims(source, 0, places))
    source.at_first = {"release": claims.release, "done": claims.done, "take": lambda: claims.take().release()}[how]
    claims.done(3)
    left: Ending = DONE if how == "done" else RELEASED
    assert dict(source.told) == {1: DONE, 2: DONE, 3: DONE, 4: left}
    assert len(source.told) == 4


def test_claims_on_several_holds_are_gone_when_those_that_are_left_are() -> None:
    first, second = Window(), Window()
    claims = Claims(EACH_HOLD, 0, (first, second, Window(), Window()))
    claims.cut(1).done()
    assert not claims.gone
    for hold in claims.places:
        assert isinstance(hold, Window)
        hold.gone = True
    assert claims.gone
    assert not first.gone

"""The contract of a run: what is made, kept, held, dropped, and what the publisher has back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from rstreams._core.claims import DONE, NO_HOLD, NOTHING, Ending, Settles
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.run import Run


class Source(Settles):
    """Notes the outcome of each place; a place has one."""

    def __init__(self) -> None:
        self.outcomes: dict[Any, Ending] = {}

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:
        assert epoch == 7
        assert not self.outcomes.keys() & set(places)
        self.outcomes.update(dict.fromkeys(places, how))

    def run(self, size: int, *, unreadable: int = -1) -> Run[int]:
        def make(item: int) -> int:
            if item == unreadable:
                raise ZeroDivisionError
            return item

        waiting = iter(range(size))
        return Run(self, 7, range(size), map(make, waiting), waiting=waiting)


def odd(items: Iterator[int]) -> Iterator[int]:
    return (item for item in items if item % 2)


def claims_of(run: Run[int]) -> ClaimsInOrder:
    return ClaimsInOrder(run.hold, loose=False)


def test_what_is_made_is_done_what_is_kept_has_claims_and_what_is_not_made_is_given_back() -> None:
    source = Source()
    run = source.run(6)
    items = run.items()
    assert (next(items), next(items)) == (0, 1)
    kept = run.keep(1)
    hold = run.hold()
    assert next(items) == 2
    run.close()
    assert source.outcomes == {2: "done", 3: "released", 4: "released", 5: "released"}
    hold.release()
    kept.done()
    assert (source.outcomes[0], source.outcomes[1]) == ("done", "released")


def test_behind_a_filter_the_claims_are_those_of_the_items_that_come_through() -> None:
    source = Source()
    run = source.run(6).then(odd, drops=True)
    kept: list[int] = []
    claims = claims_of(run)
    run.put_into(kept, claims)
    assert (kept, len(claims)) == ([1, 3, 5], 3)
    assert run.end() == 6
    assert source.outcomes == {0: "done", 2: "done", 4: "done"}
    claims.done(1)
    claims.release()
    assert source.outcomes == {0: "done", 1: "done", 2: "done", 3: "released", 4: "done", 5: "released"}


@pytest.mark.parametrize("drops", [False, True])
def test_behind_an_item_that_cannot_be_made_the_rest_comes(*, drops: bool) -> None:
    source = Source()
    run = source.run(6, unreadable=3)
    kept: list[int] = []
    claims = claims_of(run)
    offered = run.then(odd, drops=True) if drops else run
    with pytest.raises(ZeroDivisionError) as raised:
        offered.put_into(kept, claims)
    assert run.at == 3
    run.fail(raised.value)
    run.go_on()
    (run.then(odd, drops=True) if drops else run).put_into(kept, claims)
    run.end()
    assert kept == ([1, 5] if drops else [0, 1, 2, 4, 5])
    assert len(claims) == len(kept)
    claims.done()
    assert source.outcomes == {**dict.fromkeys(range(6), DONE), 3: raised.value}


def test_an_item_that_is_kept_when_it_is_left_can_be_held_besides() -> None:
    source = Source()
    run = source.run(3)
    claims = ClaimsInOrder(run.hold, loose=False)
    holds = []
    for item in run.items():
        run.keep_last(claims)
        run.keep_last(claims)
        if item == 1:
            holds.append(run.hold())
    run.end()
    claims.done()
    assert source.outcomes == {0: "done", 2: "done"}
    holds[0].release()
    assert source.outcomes[1] == "released"


def test_the_item_in_hand_fails_and_one_that_is_kept_does_not() -> None:
    source, error = Source(), ValueError()
    run = source.run(4)
    items = run.items()
    run.fail(error)  # none is in hand
    next(items)
    run.keep_last(claims_of(run))
    run.fail(error)
    next(items)
    held = run.hold()
    run.fail(error)
    held.done()
    next(items)
    kept = run.keep(1)
    assert not run.in_hand
    run.fail(error)
    assert run.hold() is NO_HOLD
    assert source.outcomes == {0: error, 1: error}
    assert list(kept.places) == [2]


def test_items_that_need_no_outcome_have_no_holds() -> None:
    run = Run(NOTHING, 0, range(2), iter("ab"))
    for _ in run.items():
        assert run.hold() is NO_HOLD
    run.close()


def test_no_more_are_kept_than_were_made_unless_the_run_waits() -> None:
    source = Source()
    run = source.run(4)
    next(run.items())
    kept = run.keep(4)
    assert (len(kept), len(run.keep(4))) == (1, 0)
    run.close()
    kept.done()
    assert source.outcomes == {0: "done", 1: "released", 2: "released", 3: "released"}
    waits = Run(source, 7, "ab", iter("ab"), waits=True)
    assert (len(waits.keep(9)), len(waits.keep(9)), waits.end()) == (2, 0, 2)


def test_behind_a_filter_items_are_kept_only_if_they_were_made_to_be_kept() -> None:
    run = Source().run(4).then(odd, drops=True)
    assert list(run.items()) == [1, 3]
    with pytest.raises(RuntimeError, match="keeps=True"):
        run.keep(2)


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("seed", range(50))
def test_who_keeps_all_items_has_their_claims_in_order_whatever_was_held_or_taken_before(
    seed: int, *, drops: bool
) -> None:
    random = Random(seed)  # noqa: S311 - to come again, not to be secret
    source, size = Source(), random.randint(1, 9)
    run = source.run(size)
    of_stage, of_sink, ends = claims_of(run), claims_of(run), list[Any]()

    def watch(items: Iterator[int]) -> Iterator[int]:
        for item in items:
            what = random.choice(["nothing", "hold", "keep"])
            if what == "hold":
                ends.append(run.hold())
            elif what == "keep":
                run.keep_last(of_stage)
                run.keep_last(of_stage)
            if not drops or item % 2:
                yield item

    run = run.then(watch, drops=drops)
    before, kept = random.randint(0, size), list[int]()
    for _ in zip(range(before), run.items(keeps=random.random() < 0.5), strict=False):
        if random.random() < 0.3:
            ends.append(run.hold())
    run.put_into(kept, of_sink)
    assert run.end() == size
    assert len(of_sink) == len(kept)
    for each in (*ends, of_stage):
        each.done()
    assert source.outcomes == dict.fromkeys(set(range(size)) - set(kept), "done")
    errors = {item: ValueError(item) for item in kept}
    for item in kept:
        of_sink.take().fail(errors[item])
    assert source.outcomes == {**dict.fromkeys(range(size), "done"), **errors}


@pytest.mark.parametrize("seed", range(50))
def test_each_place_has_one_outcome(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - to come again, not to be secret
    source, size = Source(), random.randint(1, 12)
    run = source.run(size)
    drops = random.random() < 0.5
    items = (run.then(odd, drops=True) if drops else run).items(keeps=True)
    claims, ends = claims_of(run), list[Any]()
    for _ in items:
        what = random.choice(["nothing", "hold", "keep", "keep_last", "leave"])
        if what == "leave":
            break
        if what == "hold":
            ends.append(run.hold())
        elif what == "keep":
            ends.append(run.keep(random.randint(0, 1)))
        elif what == "keep_last" and run.in_hand:
            run.keep_last(claims)
    run.close()
    random.shuffle(ends)
    for each in (*ends, claims):
        random.choice([each.done, each.release])()
    assert source.outcomes.keys() == set(range(size))

"""A durable queue against a model: producers, consumers and outcomes in any order, and a crash at any time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rstreams._core.run import Run
from rstreams.abc import Hold
from rstreams.errors import DeliveryFailed
from rstreams.message import decode_message, encode_item
from rstreams.node.queue import Queue
from rstreams.testing import ManualPublisher
from tests.node.durable import Bench, bench, check_laws
from tests.node.queues import Taker
from tests.seeds import seeds

STEPS = 60


class Model:
    """What is in the queue: by number, how often it has failed."""

    def __init__(self) -> None:
        self.sent = 0
        self.kept: dict[int, int] = {}  # messages and their failed attempts, as the present process sees them
        self.safe: dict[int, int] = {}  # the same, as the store has them for certain
        self.left: set[int] = set()  # numbers that have certainly left


class SingleTaker(Taker):
    """A consumer that takes messages one by one."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.held: dict[int, Hold] = {}

    def take(self, item: bytes, hold: Hold) -> None:
        message = decode_message(item)
        assert message.body in self.model.kept, "what has left does not come"
        assert message.delivery_count == self.model.kept[message.body]
        assert message.body not in self.held
        self.held[message.body] = hold


class RunTaker(SingleTaker):
    """A consumer that takes messages in runs."""

    def on_run(self, run: Run[bytes]) -> None:
        for item in run.items():
            self.take(item, run.keep(1))


def settle(model: Model, taker: SingleTaker, number: int, outcome: str) -> None:
    hold = taker.held.pop(number)
    if outcome == "fail":
        model.kept[number] += 1
        hold.fail(ValueError())
    elif outcome == "release":
        hold.release()
    else:
        del model.kept[number]
        if outcome == "done":
            hold.done()
        else:
            hold.fail(DeliveryFailed("rejected"))


def play(chance: random.Random, model: Model, queue: Queue, takers: list[SingleTaker], links: Any) -> None:  # noqa: ANN401
    """Do one thing."""
    what = chance.choice(("send", "send", "request", "settle", "settle", "settle"))
    taker = chance.choice(takers)
    assert taker.subscription is not None
    if what == "send":
        link = chance.choice(links)
        for _ in range(min(link.outstanding, chance.randint(1, 8))):
            model.kept[model.sent] = 0
            link.next(encode_item(model.sent))
            model.sent += 1
    elif what == "request":
        taker.subscription.request(chance.randint(1, 12))
    elif taker.held:
        outcome = chance.choice(("done", "done", "done", "release", "fail", "reject"))
        settle(model, taker, chance.choice(list(taker.held)), outcome)


def subscribed(model: Model, queue: Queue, *, runs: bool) -> tuple[list[SingleTaker], list[ManualPublisher[bytes]]]:
    takers = [RunTaker(model), RunTaker(model) if runs else SingleTaker(model)]  # one that takes no runs stops all runs
    for taker in takers:
        queue.subscribe(taker)
    links = [ManualPublisher[bytes]() for _ in range(2)]
    for link in links:
        link.subscribe(queue.producer())
    return takers, links


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12, quick=4))
def test_what_is_safe_outlives_a_crash_and_what_has_left_does_not_come_back(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a choice
    model = Model()
    path = tmp_path / "0"
    for life in range(3):
        with bench(path) as here:
            queue = here.queue(capacity=None, in_memory=chance.choice((8, 16, 1000)))
            takers, links = subscribed(model, queue, runs=seed % 2 == 0)
            for _ in range(STEPS):
                play(chance, model, queue, takers, links)
                if chance.random() < 0.4:
                    here.run()
                    check_laws(queue)
            here.run()
            check_laws(queue)
            assert all(outcome == "done" for link in links for outcome in link.outcomes)
            model.safe = dict(model.kept)
            model.left = set(range(model.sent)) - set(model.kept)
            path = tmp_path / str(life + 1)
            crash(here, path, model, lambda: play(chance, model, queue, takers, links), chance.randint(0, 8))  # noqa: B023
    with bench(path) as here:
        check_all(here, model)


def crash(here: Bench, path: Path, model: Model, play_on: Callable[[], None], steps: int) -> None:
    """Do some things that never become safe, and take the files as they are; the model is that of the next life."""
    go_on, commit = threading.Event(), here.store._tables.commit

    def held_up(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        assert go_on.wait(30)
        return commit(*arguments, **options)

    here.store._tables.commit = held_up  # type: ignore[method-assign]
    sent = model.sent
    for _ in range(steps):
        play_on()
    again = here.killed(path)
    again.close()
    go_on.set()
    here.run()
    model.kept, model.sent = dict(model.safe), sent


def check_all(here: Bench, model: Model) -> None:
    """Take everything: it is what is safe, in its order."""
    taker = SingleTaker(model)
    queue = here.queue(capacity=None, in_memory=8)
    queue.subscribe(taker)
    assert taker.subscription is not None
    taker.subscription.request(10_000)
    here.run()
    assert list(taker.held) == sorted(model.safe)
    assert not set(taker.held) & model.left
    for number in list(taker.held):
        settle(model, taker, number, "done")
    here.run()
    check_laws(queue)
    assert here.store.partition("queue/q").count == 0

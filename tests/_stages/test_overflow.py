"""Of a source that is not slowed down every item has one fate: delivered, dropped with word of it, or kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hypothesis import event, given
from hypothesis import strategies as st

from rstreams.abc import Publisher
from rstreams.errors import BufferOverflow
from rstreams.operators.on_overflow_buffer import on_overflow_buffer
from rstreams.operators.on_overflow_drop import on_overflow_drop
from rstreams.operators.on_overflow_error import on_overflow_error
from rstreams.operators.on_overflow_latest import on_overflow_latest
from rstreams.operators.on_overflow_reduce import on_overflow_reduce
from rstreams.testing import ManualPublisher, ProbeSubscriber

# Items are lists of one number, so that folding shows what was folded.
Items: TypeAlias = Publisher[list[int]]
Make: TypeAlias = Callable[[Items, Callable[[list[int]], None]], Items]

FAMILY: dict[str, Make] = {
    "error": lambda source, _: on_overflow_error(source),
    "drop": on_overflow_drop,
    "latest": on_overflow_latest,
    "reduce": lambda source, _: on_overflow_reduce(source, lambda w, item: w + item, ack="on_receipt"),
    "reduce within window": lambda source, _: on_overflow_reduce(source, lambda waiting, item: waiting + item),
    "reduce on result": lambda source, _: on_overflow_reduce(source, lambda w, item: w + item, ack="on_result"),
    "buffer, error": lambda source, _: on_overflow_buffer(source, 3),
    "buffer, drop_oldest": lambda s, on_drop: on_overflow_buffer(s, 3, strategy="drop_oldest", on_drop=on_drop),
    "buffer, drop_newest": lambda s, on_drop: on_overflow_buffer(s, 3, strategy="drop_newest", on_drop=on_drop),
}
MOST_KEPT = {"error": 0, "drop": 0, "latest": 1} | {name: 3 for name in FAMILY if name.startswith("buffer")}


class Run:
    """One subscription, and what became of each number sent."""

    def __init__(self, make: Make, again: set[int]) -> None:
        def on_item(item: list[int]) -> None:
            if item[0] in again:
                self.probe.request(1)

        self.sent = 0
        self.settled = 0
        self.dropped: list[int] = []
        self.source = ManualPublisher[list[int]]()
        self.probe = ProbeSubscriber[list[int]](1, hold=True, on_item=on_item)
        make(self.source, self.dropped.extend).subscribe(self.probe)

    def request(self) -> None:
        if not self.probe.ended:
            self.probe.request(1)

    def send(self) -> None:
        if not self.source.cancelled:
            self.source.next([self.sent])
            self.sent += 1

    def settle(self) -> None:
        if self.settled < len(self.probe.holds):
            self.probe.holds[self.settled].done()
            self.settled += 1

    def complete(self) -> None:
        self.source.complete()
        while not self.probe.ended:
            self.probe.request(1)
        assert self.left == set(), "nothing is lost"

    def error(self) -> None:
        self.source.error(ValueError())
        while not self.probe.ended:
            self.probe.request(1)
        assert self.left == set(), "nothing is lost"

    def cancel(self) -> None:
        self.probe.cancel()

    @property
    def delivered(self) -> list[int]:
        return [number for item in self.probe.items for number in item]

    @property
    def left(self) -> set[int]:
        """Return what was sent and is neither delivered nor dropped."""
        return set(range(self.sent)) - set(self.delivered) - set(self.dropped)

    def check(self, name: str) -> None:
        delivered, dropped, outcomes = self.delivered, self.dropped, self.source.outcomes
        assert delivered == sorted(set(delivered)), "in order, and each once"
        assert dropped == sorted(set(dropped))
        assert not set(delivered) & set(dropped), "never both"
        assert {outcomes[number] for number in dropped} <= {"done"}
        if not self.probe.ended:
            assert len(self.left) <= MOST_KEPT.get(name, self.sent)
            assert name == "reduce" or {outcomes[number] for number in self.left} <= {None}, "what is kept is held"


@given(
    name=st.sampled_from(sorted(FAMILY)),
    actions=st.lists(st.tuples(st.sampled_from(["request", "send", "send", "settle"]), st.integers(1, 6)), max_size=25),
    again=st.sets(st.integers(0, 40)),
    end=st.sampled_from(["complete", "error", "cancel"]),
)
def test_every_item_has_one_fate(name: str, actions: list[tuple[str, int]], again: set[int], end: str) -> None:
    run = Run(FAMILY[name], again)
    for action, n in actions:
        for _ in range(n):
            getattr(run, action)()
        run.check(name)

    if run.probe.ended:
        assert isinstance(run.probe.error, BufferOverflow)
    else:
        getattr(run, end)()
    while run.settled < len(run.probe.holds):
        run.settle()

    released = {number for number, outcome in enumerate(run.source.outcomes) if outcome == "released"}
    assert None not in run.source.outcomes
    assert released == (set() if name == "reduce" else run.left), "what is left is given back"
    event(f"{name}: {'overflow' if isinstance(run.probe.error, BufferOverflow) else end}")

"""Shared runs of a source against naive models of them: lists of items, and how far each subscriber has got."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from rstreams._stages.log import Log
from rstreams.operators.distribute import distribute
from rstreams.operators.partition import partition
from rstreams.testing import ManualPublisher, ProbeSubscriber

# What is done, and to which subscriber or how often.
Action = tuple[str, int, int]

JOIN, REQUEST, CANCEL, SEND = "join", "request", "cancel", "send"
ACTIONS = st.lists(
    st.tuples(st.sampled_from([JOIN, REQUEST, REQUEST, CANCEL, SEND, SEND]), st.integers(0, 3), st.integers(1, 6)),
    max_size=40,
)


@dataclass(eq=False)
class _Reader:
    """A subscriber, and what the model says of it."""

    begin: int = 0
    requested: int = 0
    probe: ProbeSubscriber[int] = field(default_factory=ProbeSubscriber[int])

    @property
    def limit(self) -> int:
        return self.begin + self.requested

    def position(self, head: int) -> int:
        return min(self.limit, head)


class _LogModel:
    """Items are numbered from 0 and kept for ever; a reader has those from where it began to what it asked for."""

    def __init__(self, window: int, history: int, *, together: bool) -> None:
        self.window, self.history, self.together = window, history, together
        self.source = ManualPublisher[int](self.asked)
        self.log = Log[int]("log", window, history, together=together)
        self.head = 0
        self.held: set[int] = set()
        self.readers: list[_Reader] = []
        self.join()
        self.log.connect(self.source)

    def slowest(self) -> int:
        return min(reader.position(self.head) for reader in self.readers)

    def wanted(self) -> int:
        return (min if self.together else max)(reader.limit for reader in self.readers)

    def asked(self, _n: int) -> None:
        assert self.source.requested <= min(self.wanted(), self.window + self.slowest())

    def join(self) -> None:
        reader = _Reader(max(self.head - self.history, 0))
        self.readers.append(reader)
        self.log.join(reader.probe)

    def do(self, action: str, which: int, n: int) -> None:
        reader = self.readers[which % len(self.readers)]
        if action == JOIN:
            self.join()
        elif action == REQUEST:
            reader.requested += n
            reader.probe.request(n)
        elif action == CANCEL and len(self.readers) > 1:
            self.readers.remove(reader)
            reader.probe.cancel()
        elif action == SEND:
            for _ in range(min(n, self.source.outstanding)):
                self.held.add(self.head)
                self.head += 1
                self.source.next(self.head - 1)
        self.held = {index for index in self.held if index >= self.slowest()}

    def check(self) -> None:
        for reader in self.readers:
            assert reader.probe.items == list(range(reader.begin, max(reader.position(self.head), reader.begin)))
        assert [index for index, outcome in enumerate(self.source.outcomes) if outcome is None] == sorted(self.held)
        if not self.source.outstanding:  # then there is a reason
            assert self.head >= min(self.wanted(), self.window + self.slowest())


@settings(max_examples=60)
@given(actions=ACTIONS, window=st.integers(1, 6), history=st.integers(0, 3), together=st.booleans())
def test_everyone_gets_every_item_from_where_it_began(
    actions: list[Action], window: int, history: int, *, together: bool
) -> None:
    model = _LogModel(window, history, together=together)
    model.check()
    for action in actions:
        model.do(*action)
        model.check()

    model.source.complete()
    for reader in model.readers:
        if reader.limit < model.head:
            assert not reader.probe.completed
            reader.probe.request(model.head - reader.limit)
        assert reader.probe.items == list(range(reader.begin, model.head))
        assert reader.probe.completed
    assert None not in model.source.outcomes


@settings(max_examples=60)
@given(actions=ACTIONS, window=st.integers(1, 6), parts=st.integers(1, 4))
def test_each_part_gets_the_items_of_its_keys(actions: list[Action], window: int, parts: int) -> None:
    source = ManualPublisher[int]()
    probes = [ProbeSubscriber[int]() for _ in range(parts)]
    requested, theirs, gone = [0] * parts, [list[int]() for _ in range(parts)], set[int]()
    for part, probe in zip(partition(source, lambda x: x // 10, parts, window=window), probes, strict=True):
        part.subscribe(probe)

    for action, any_number, n in actions:
        which = any_number % parts
        if action == REQUEST and which not in gone:
            requested[which] += n
            probes[which].request(n)
        elif action == CANCEL and len(gone) < parts - 1:
            gone.add(which)
            probes[which].cancel()
        elif action == SEND:
            for _ in range(min(n, source.outstanding)):
                item = len(source.outcomes) + 10 * parts * len(source.outcomes) + 10 * which
                theirs[item // 10 % parts].append(item)
                source.next(item)
        here = [i for i in range(parts) if i not in gone]
        kept = [len(theirs[i]) - requested[i] for i in here]
        for i in here:
            assert probes[i].items == theirs[i][: requested[i]]
        assert source.outstanding + max(0, *kept, 0) <= window
        if not source.outstanding:
            assert max(kept) >= window or all(k >= 0 for k in kept)
        assert source.outcomes.count(None) == sum(k for k in kept if k > 0)


@settings(max_examples=60)
@given(actions=ACTIONS, window=st.integers(1, 6))
def test_each_item_goes_to_the_one_that_wants_it_most(actions: list[Action], window: int) -> None:
    source = ManualPublisher[int]()
    shared = distribute(source, window=window)
    line = [_Reader()]  # those that have waited longest first
    everyone = list(line)
    waiting: list[int] = []
    expected: dict[_Reader, list[int]] = {line[0]: []}
    shared.subscribe(line[0].probe)

    def serve() -> None:
        while waiting and any(reader.requested for reader in line):
            best = max(line, key=lambda reader: reader.requested)
            line.remove(best)
            line.append(best)
            best.requested -= 1
            expected[best].append(waiting.pop(0))

    for action, which, n in actions:
        reader = everyone[which % len(everyone)]
        if action == JOIN:
            line.append(new := _Reader())
            everyone.append(new)
            expected[new] = []
            shared.subscribe(new.probe)
        elif action == REQUEST:
            reader.requested += n
            reader.probe.request(n)
        elif action == CANCEL and len(everyone) > 1:
            everyone.remove(reader)
            line.remove(reader)
            reader.probe.cancel()
        elif action == SEND:
            for item in range(len(source.outcomes), len(source.outcomes) + min(n, source.outstanding)):
                waiting.append(item)
                serve()
                source.next(item)
        serve()
        assert [reader.probe.items for reader in expected] == list(expected.values())
        assert source.outcomes.count(None) == len(waiting)
        assert source.outstanding + len(waiting) <= window
        if not source.outstanding:
            assert len(waiting) >= window or not any(reader.requested for reader in line)

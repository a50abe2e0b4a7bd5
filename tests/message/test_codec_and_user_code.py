"""The codec in C while code of the user runs in between, or has changed the objects before."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from rstreams import message as codec
from rstreams.errors import ConfigError, RemoteProtocolError
from rstreams.message import ByteStream, Described, Message, Symbol

python, in_c = codec._IN_PYTHON, codec._codec


class Calls(Mapping[str, int]):
    """A mapping that calls a function when it is encoded."""

    def __init__(self, call: Callable[[], object], content: Mapping[str, int] | None = None) -> None:
        self._call = call
        self._content = content or {"n": 1}

    def __getitem__(self, key: str) -> int:
        return self._content[key]

    def __iter__(self) -> Iterator[str]:
        self._call()
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


def outcome(function: Callable[[Any], Any], make: Callable[[], object]) -> object:
    """What came of a call, comparable."""
    try:
        return function(make())
    except Exception as error:
        return type(error), str(error)


def same(make: Callable[[], object]) -> object:
    """Encode what `make` makes anew each time, with both; return what came of it."""
    expected = outcome(python.encode_item, make)
    assert outcome(in_c.encode_item, make) == expected
    return expected


# ------------------------------------------------------------------------------------------- user code while encoding


@pytest.mark.parametrize("field", ["body", "annotations"])
def test_a_dict_that_grows_while_it_is_encoded_is_an_error(field: str) -> None:
    def make() -> Message:
        grown: dict[str, Any] = {}

        def grow() -> None:
            assert len(grown) < 1000, "endless"
            grown[f"more{len(grown)}"] = Calls(grow)

        grown["first"] = Calls(grow)
        return Message(**{field: grown})  # type: ignore[arg-type]

    assert same(make) == (RuntimeError, "dictionary changed size during iteration")


def test_a_dict_whose_keys_change_while_it_is_encoded_is_an_error() -> None:
    def make() -> Message:
        turned: dict[str, Any] = {}
        turns = iter(range(1000))

        def turn() -> None:
            turn_of = next(turns)
            turned[f"key{turn_of + 1}"] = Calls(turn)
            del turned[f"key{turn_of}"]

        turned["key0"] = Calls(turn)
        return Message(turned)

    assert same(make) == (RuntimeError, "dictionary keys changed during iteration")


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_list_that_gets_shorter_while_it_is_encoded_ends_sooner(left: int) -> None:
    def make() -> Message:
        items: list[object] = []
        items += [Calls(lambda: items.__delitem__(slice(left, None))), b"x" * 300, [1], "é" * 100]
        return Message(items)

    assert isinstance(same(make), bytes)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["annotations", "properties", "body", "id"])
def test_fields_replaced_while_a_message_is_encoded(field: str) -> None:
    def make() -> Message:
        def change() -> None:
            object.__setattr__(message, field, {"new": "y" * 2000} if field != "id" else UUID(int=7))
            gc.collect()

        annotations: dict[str | int, Any] = {"a": Calls(change), "b": ["x" * 1000], "c": "z"}
        message = Message({"k": [b"x" * 500]}, id=UUID(int=2**90), properties={"p": "q" * 500}, annotations=annotations)
        del annotations
        return message

    assert isinstance(same(make), bytes)


def test_a_time_zone_that_changes_the_message() -> None:
    class Zone(tzinfo):
        def __init__(self) -> None:
            self.message: Message | None = None

        def utcoffset(self, _: datetime | None) -> timedelta:
            if self.message is not None:
                object.__setattr__(self.message, "creation_time", None)
            return timedelta(hours=1)

        def tzname(self, _: datetime | None) -> str:
            return "zone"

        def dst(self, _: datetime | None) -> timedelta:
            return timedelta()

    def make() -> Message:
        zone = Zone()
        zone.message = Message(b"", creation_time=datetime(2020, 1, 1, tzinfo=zone), subject="s" * 500)
        return zone.message

    assert isinstance(same(make), bytes)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_error_of_the_value_is_raised_at_once(raised: type[BaseException]) -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        raise raised

    for item in (Message(annotations={"a": Calls(call)}), [Calls(call)], Message({"a": Calls(call)})):
        calls.clear()
        with pytest.raises(raised):
            in_c.encode_item(item)
        assert len(calls) == 1


def test_a_memory_error_is_tried_again_in_python() -> None:
    def call() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        in_c.encode_item([Calls(call)])


# --------------------------------------------------------------------------------------------- classes and odd objects


class SubMessage(Message):
    __slots__ = ()


class MappingMessage(Message, Mapping[str, int]):
    __slots__ = ()

    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


class MappingByteStream(ByteStream, Mapping[str, int]):
    __slots__ = ()

    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(("a",))

    def __len__(self) -> int:
        return 1


class MappingText(str, Mapping[str, int]):  # type: ignore[misc]
    __slots__ = ()


class Number(int):
    def __rshift__(self, by: int) -> int:
        return 1


class Added(bytes):
    def __radd__(self, other: object) -> str:
        return "odd"


class Text(str):
    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"another"


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ORDER = "order"


class Dict(dict[str, int]):
    def items(self) -> Any:  # noqa: ANN401 - a list
        return [("other", 2)]


class Moment(datetime):
    def timestamp(self) -> float:
        return 0.0


NOW = datetime(2026, 11, 22, 12, 0, 0, 123456, tzinfo=UTC)

ODD_ITEMS: dict[str, Callable[[], object]] = {
    "subclass": lambda: SubMessage(b"x", id="1"),
    "subclass that is a mapping": lambda: MappingMessage(b"x", id="1"),
    "byte stream that is a mapping": lambda: MappingByteStream([b"x"]),
    "message with such a byte stream": lambda: Message(MappingByteStream([b"x"])),
    "message with a message": lambda: Message(Message()),
    "property that is a mapping": lambda: Message(properties={"a": MappingText("t")}),
    "property of an enum": lambda: Message(properties={"a": Level.LOW, "b": Name.ORDER}),
    "property that is described": lambda: Message(properties={"a": Described(1, 2)}),
    "property that is bytes": lambda: Message(
        properties={"a": bytearray(b"x"), "b": memoryview(b"y"), "c": Symbol("z")}
    ),
    "property with a key of a subclass": lambda: Message(properties={Text("a"): 1}),
    "text": lambda: Text("x"),
    "text in a list": lambda: [Text("x")],
    "subject of a subclass": lambda: Message(subject=Text("x"), id=Name.ORDER, priority=Level.LOW),
    "dict of a subclass": lambda: Dict(a=1),
    "dict of a subclass in fields": lambda: Message(annotations=Dict(a=1), properties=Dict(b=2)),  # type: ignore[arg-type]
    "mapping": lambda: Message(UserDict(a=1), annotations=UserDict({"a": 1}), properties=UserDict(b=2)),
    "bytes that add up to a str": lambda: [Added(b"x"), Added(b"x" * 300)],
    "moment of a subclass": lambda: [Moment(2001, 1, 1, tzinfo=UTC)],
    "moment": lambda: Message([NOW], creation_time=Moment(2020, 1, 1, tzinfo=UTC), expiry_time=NOW),
    "moment without a zone": lambda: Message(creation_time=datetime(2020, 1, 1)),  # noqa: DTZ001 - the point
    "moment without a zone in a list": lambda: [datetime(2020, 1, 1)],  # noqa: DTZ001
    "absent by equality": lambda: Message(durable=0, priority=4.0, delivery_count=False),  # type: ignore[arg-type]
    "absent by equality, and one is not": lambda: Message(durable=0, first_acquirer=True),  # type: ignore[arg-type]
    "true as a number": lambda: Message(priority=True),
    "number as true": lambda: Message(first_acquirer=1),  # type: ignore[arg-type]
    "annotations None": lambda: Message(annotations=None, properties=None),  # type: ignore[arg-type]
    "annotations with a symbol": lambda: Message(annotations={Symbol("a"): 1, 7: 2, "b": 3}),
    "annotations with a key of a subclass": lambda: Message(annotations={Text("a"): 1, Level.LOW: 2}),
    "annotations with true as a key": lambda: Message(annotations={True: 1}),
    "a float in uint's place": lambda: Message(group_sequence=1.0),  # type: ignore[arg-type]
    "long text with more than ASCII": lambda: Message("é" * 300, subject="€" * 200, content_type="x" * 300),
    "long symbol with more than ASCII": lambda: [Symbol("é" * 300)],
    "surrogates": lambda: ["\ud800" * 300],
    "huge": lambda: [2**64],
    "huge id": lambda: Message(id=2**64),
    "huge ttl": lambda: Message(ttl_s=10**400),
    "tuple": lambda: ((), (1, ()), {(1, "a"): ()}),
}


@pytest.mark.parametrize("make", ODD_ITEMS.values(), ids=ODD_ITEMS.keys())
def test_odd_items(make: Callable[[], object]) -> None:
    same(make)


@pytest.mark.parametrize("of", [0, -1, 2**128, Number(2**70), 1.5, "1", None])
@pytest.mark.parametrize("place", ["id", "body", "list"])
def test_a_uuid_of_an_odd_number(of: object, place: str) -> None:
    uuid = UUID(int=1)
    object.__setattr__(uuid, "int", of)
    same({"id": lambda: Message(id=uuid), "body": lambda: uuid, "list": lambda: [uuid]}[place])


def test_a_uuid_without_a_number() -> None:
    uuid = UUID(int=1)
    object.__delattr__(uuid, "int")
    same(lambda: Message(id=uuid))


@pytest.mark.parametrize("name", [each.name for each in fields(Message)])
def test_any_value_in_any_field(name: str) -> None:
    value: Any
    for value in (0, -1, 1.5, True, None, 4.0, "text", b"bytes", [], {}, {"a": 1}, NOW, UUID(int=1), object):
        alone: Any = {name: value}
        same(lambda: Message(**alone))  # noqa: B023 - called at once
        same(lambda: Message(**{"id": "1", "durable": True, **alone}))  # noqa: B023


@pytest.mark.parametrize("name", [each.name for each in fields(Message)])
def test_a_field_that_is_deleted(name: str) -> None:
    def make() -> Message:
        message = Message(b"x")
        object.__delattr__(message, name)
        return message

    told = same(make)
    assert isinstance(told, tuple)
    assert told[0] is AttributeError
    assert told[1].endswith(f"Message' object has no attribute '{name}'")  # Python 3.13 also names the module
    with pytest.raises(AttributeError):
        in_c.encode_item(make())


EDGES = [
    datetime.min,  # noqa: DTZ901 - given zones below
    datetime.max,  # noqa: DTZ901
    datetime(1, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
    datetime(1716, 1, 1),  # noqa: DTZ001
    datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
    datetime(1969, 12, 31, 23, 59, 59, 999_000),  # noqa: DTZ001
    datetime(1970, 1, 1),  # noqa: DTZ001
    datetime(1970, 1, 1, 0, 0, 0, 999),  # noqa: DTZ001
    datetime(2033, 5, 18, 3, 33, 20, 999_999),  # noqa: DTZ001
    datetime(2038, 1, 19, 3, 14, 8, 1),  # noqa: DTZ001
    datetime(2223, 7, 6, 12, 26, 39, 999_999),  # noqa: DTZ001
    datetime(2262, 4, 11, 23, 47, 16, 854_775),  # noqa: DTZ001
]


@pytest.mark.parametrize("moment", EDGES)
@pytest.mark.parametrize(
    "zone",
    [
        UTC,
        timezone(timedelta(0), "Z"),
        timezone(timedelta(hours=14)),
        timezone(timedelta(hours=-12, seconds=7)),
    ],
)
def test_moments_at_the_edges(moment: datetime, zone: tzinfo) -> None:
    there = moment.replace(tzinfo=zone)
    again = there.replace(fold=1)
    told = same(lambda: Message([there, again], creation_time=there, expiry_time=again))
    assert isinstance(told, bytes)


def test_each_microsecond_around_the_borders_of_a_double() -> None:
    for seconds in (0, 2**31, 2**32, 8 * 10**9 - 1, -(2**31), -(8 * 10**9) + 1, 2**33 - 1):
        start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=999_000)
        for microseconds in (*range(-3, 4), 996, 997, 998, 999, 1000, 1001):
            moment = start + timedelta(microseconds=microseconds)
            assert in_c.encode_item([moment]) == python.encode_item([moment])


# ------------------------------------------------------------------------------------------- the collector, and memory


def test_no_list_is_seen_with_holes_in_it() -> None:
    """A list of null pointers would crash whoever finds it by way of the garbage collector."""
    program = """
import gc
from rstreams.message import decode_body, decode_message
body = bytes.fromhex("00 53 77 d0 00000039 0000000a") + b"\\xc1\\x01\\x00" * 5 + b"\\x73\\x00\\x00\\x00\\x62" * 5
body = body[:4] + (len(body) - 8).to_bytes(4) + body[8:]
seen = []
def look(phase, info):
    seen.extend(len(repr(each)) for each in gc.get_objects() if type(each) is list and len(each) == 10)
gc.callbacks.append(look)
gc.set_threshold(1, 1, 1)
for decode in (decode_body, decode_message):
    decode(body)
gc.callbacks.clear()
print("whole")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "whole\n", done.stderr


@pytest.mark.slow
def test_a_half_made_message_that_the_collector_shows() -> None:
    found: list[str] = []

    def look(_phase: str, _info: object) -> None:
        for each in gc.get_objects():
            if type(each) is Message:
                try:
                    found.append(repr(each.reply_to_group_id))
                except AttributeError:
                    found.append("half made")

    encoded = in_c.encode_item(Message({"a": [{}]}, annotations={"a": {"b": []}}, properties={"a": 1}, id="1"))
    before = gc.get_threshold()
    gc.callbacks.append(look)
    gc.set_threshold(1, 1, 1)
    try:
        messages = [in_c.decode_message(encoded) for _ in range(10)]
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(look)
    assert found
    assert messages == [python.decode_message(encoded)] * 10


@pytest.mark.slow
def test_lists_in_lists_that_lie_about_their_count_take_no_memory() -> None:
    size = 200_000
    lists = b"".join(b"\xd0" + (size - 9 * n).to_bytes(4) + (size - 9 * n - 100).to_bytes(4) for n in range(60))
    encoded = b"\0Sw" + lists + b"\x40" * (size - len(lists) + 20)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            in_c.decode_body(encoded)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * size * 8


def test_a_text_that_is_sent_does_not_keep_its_encoded_form() -> None:
    text = "é" * 100_000
    size = sys.getsizeof(text)
    in_c.encode_item(text)
    in_c.encode_item(Message(text, subject=text))
    assert sys.getsizeof(text) == size


@pytest.mark.slow
def test_nothing_is_left_behind() -> None:
    class Refused(Exception):
        pass

    def refuse() -> None:
        raise Refused

    message = Message(
        {"a": [1, 2.5, None, NOW, UUID(int=2**90), Symbol("s"), Described(1, 2)], "é": "é" * 300},
        id=UUID(int=2**90),
        subject="s" * 300,
        creation_time=NOW,
        expiry_time=NOW.astimezone(timezone(timedelta(hours=1))),
        properties={"a": 2**63, "b": NOW, "c": Level.LOW},
        annotations={"x": UserDict(a=1), Symbol("y"): 2, 2**40: 3},
        durable=True,
        ttl_s=1.5,
    )
    encoded = in_c.encode_item(message)
    wrong = [encoded[:n] for n in range(0, len(encoded), 7)] + [
        encoded[:n] + b"\xff" + encoded[n + 1 :] for n in range(0, len(encoded), 5)
    ]
    refused: list[object] = [
        [Calls(refuse)],
        Message(annotations={"a": Calls(refuse)}),
        Message(id=1.5),  # type: ignore[arg-type]
        [object()],
        2**70,
        {"a": "\ud800"},
    ]

    def round_trip() -> None:
        assert in_c.decode_message(encoded).id == message.id
        assert in_c.with_delivery_count(encoded, 300)
        assert in_c.decode_body(encoded)
        assert in_c.encode_item(replace(message, id=2**63))
        for each in wrong:
            for decode in (in_c.decode_message, in_c.decode_body):
                with suppress(RemoteProtocolError):
                    decode(each)
        for item in refused:
            with pytest.raises((Refused, ConfigError)):
                in_c.encode_item(item)

    def blocks(rounds: int) -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(rounds):
            round_trip()
        gc.collect()
        return sys.getallocatedblocks() - before

    blocks(3)
    assert min(blocks(150) for _ in range(2)) < 120  # a block left behind by one of them would be 150

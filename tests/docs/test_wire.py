"""The page about the wire has every name of ours, as it is in the code and in recorded frames, and no other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from rstreams.node.management.operations import Operations
from tests.docs.wire_features import record
from tests.docs.wire_traffic import Frame, Value, sections

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")

PLACES: Final = (
    *("rstreams/net", "rstreams/node", "rstreams/protocol", "rstreams/_codec"),
    *("rstreams/message.py", "rstreams/errors.py", "adapters/spark/src"),
)
"""The code that writes and reads what goes over the wire."""

NAMES: Final = re.compile(
    r"rstreams[:-][a-z-]*[a-z]|x-[a-z-]*[a-z]|(rabbitmq|amqp|apache\.org|com\.microsoft):[a-z:-]+[a-z]|jms-[a-z]+"
    r"|\$[a-zA-Z]+|/management|temporary-queue|sql-filter|ANONYMOUS-RELAY|put-token|status-[a-z]+"
)
"""What a string looks like that is a name on the wire."""

QUOTED: Final = re.compile(r"[\"']([^\s\"']{1,60})[\"']")
"""A string without spaces; to parse the code would take seconds."""

NO_NAMES: Final = {
    r"amqp:[a-z:-]+:(list|map|binary)": "the specification's names of sections and frames, for messages",
    r"x-opt-reason": "an example in a docstring",
    r"\$coordinator": "how the code calls the target of transactions, which is a type of its own on the wire",
}
"""Strings that look so and are none, with the reason."""

NOT_RECORDED: Final = {"$cbs": "a node takes no tokens; `tests/net/cbs` has a peer that does"}
"""Names of the page that no recorded frame has, with the reason."""

SENDERS: Final = {"client": {"client"}, "node": {"node"}}
ONE_SIDED: Final = ("open properties", "attach properties", "source filter", "source capabilities")
"""The places in which a name comes from the side that the page says; a message passes through the node."""


class Row(NamedTuple):
    """A name of the page."""

    name: str
    types: frozenset[str]
    place: str
    sent_by: str


class Seen(NamedTuple):
    """A name in a frame."""

    name: str
    type: str
    place: str
    sender: str


def rows() -> list[Row]:
    """Return the rows of the tables of names."""
    found = []
    for table in re.findall(r"\| name \| type \|.*?\n\|[-|]+\n(.*?)\n\n", PAGE, re.DOTALL):
        for line in table.splitlines():
            name, types, place, sent_by, *_ = (cell.strip() for cell in line.strip("|").split(" | "))
            found.append(Row(name.strip("`"), frozenset(types.split(", ")), place, sent_by))
    return found


@cache
def strings() -> dict[str, str]:
    """Return each short text in quotes of the code, with a file that has it."""
    found: dict[str, str] = {}
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for text in QUOTED.findall(file.read_text(encoding="utf-8")):
                found.setdefault(text, str(file.relative_to(ROOT)))
    return found


def test_the_page_has_each_name_of_the_code() -> None:
    names = {
        text: file
        for text, file in strings().items()
        if NAMES.fullmatch(text) and not any(re.fullmatch(pattern, text) for pattern in NO_NAMES)
    }
    assert len(names) > 60
    assert {name: file for name, file in names.items() if f"`{name}`" not in PAGE} == {}


def test_the_code_has_each_name_of_the_page() -> None:
    assert len(rows()) > 40
    assert [row.name for row in rows() if row.name not in strings()] == []


def test_the_page_has_each_request_of_management() -> None:
    nothing: Any = SimpleNamespace(connections=None)
    known = Operations(nothing, {}, nothing, nothing, nothing, has_store=False)._known_requests
    requests = {f"{method} /{'/'.join(pattern)}" for method, pattern, _ in known}
    told = set(re.findall(r"^\| `((?:GET|PUT|POST|DELETE) /[^`?]*)`", PAGE, re.MULTILINE))
    words = {each.replace("/subscriptions/<name>", "/subscriptions/<number>") for each in requests}
    assert told == words


# recorded frames


def _kind(value: Value) -> str:
    return f"described {value.content[1].type}" if value.type == "described" else value.type


def _of_map(value: Value, place: str, sender: str) -> Iterator[Seen]:
    for name, each in value.pairs:
        yield Seen(name, _kind(each), place, sender)


def _terminus(value: Value) -> list[Value]:
    """Return the fields of a source or target, as many as either can have."""
    fields: list[Value] = value.content[1].content if value.type == "described" else []
    return fields + [Value("null", None)] * (11 - len(fields))


def _of_attach(frame: Frame) -> Iterator[Seen]:
    yield from _of_map(frame[13], "attach properties", frame.sender)
    source, target = _terminus(frame[5]), _terminus(frame[6])
    yield from _of_map(source[7], "source filter", frame.sender)
    for place, names in (("source capabilities", source[10]), ("target capabilities", target[6])):
        yield from (Seen(name, "symbol", place, frame.sender) for name in names.texts)
    for address in (source[0], target[0]):
        if address.type != "null" and re.match(r"\$|/management", address.content):
            yield Seen(address.content, address.type, "address", frame.sender)


def _of_error(value: Value, sender: str) -> Iterator[Seen]:
    if value.type == "described":
        yield Seen(value.content[1].content[0].content, "symbol", "condition", sender)


def _of_disposition(frame: Frame) -> Iterator[Seen]:
    if frame[4].type != "described":
        return
    descriptor, fields = frame[4].content[0].content, frame[4].content[1].content
    if descriptor == 0x25 and fields:
        yield from _of_error(fields[0], frame.sender)
    elif descriptor == 0x27 and len(fields) > 2:
        yield from _of_map(fields[2], "modified annotations", frame.sender)


def _of_message(message: bytes, sender: str) -> Iterator[Seen]:
    """Return the names in a message, and in those that it packs."""
    pack = False
    for section, value in sections(message):
        if section in {"message-annotations", "application-properties"}:
            yield from _of_map(value, section.replace("-", " "), sender)
            pack = pack or any(name == "x-opt-rstreams-pack" for name, _ in value.pairs)
        elif section == "properties":
            reply_to = [*value.content, *[Value("null", None)] * 5][4]
            if reply_to.content == "$me":
                yield Seen("$me", reply_to.type, "reply-to", sender)
        elif section == "data" and pack:
            yield from _of_message(value.content, sender)


def names_in(frame: Frame) -> Iterator[Seen]:
    """Return the names in a frame that are no fields of the specification."""
    match frame.name:
        case "open":
            for index, place in ((7, "offered"), (8, "desired")):
                yield from (
                    Seen(each, "symbol", f"open {place}-capabilities", frame.sender) for each in frame[index].texts
                )
            yield from _of_map(frame[9], "open properties", frame.sender)
        case "attach":
            yield from _of_attach(frame)
        case "disposition":
            yield from _of_disposition(frame)
        case "detach":
            yield from _of_error(frame[2], frame.sender)
        case "end" | "close":
            yield from _of_error(frame[0], frame.sender)
        case "transfer":
            yield from _of_message(frame.payload, frame.sender)


@pytest.mark.slow
async def test_recorded_frames_have_the_names_of_the_page_and_no_others() -> None:
    seen = {each for frame in await record() for each in names_in(frame)}
    told: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows():
        told[row.place, row.name].append(row)

    def is_told(each: Seen) -> bool:
        if each.place == "condition":
            return f"`{each.name}`" in PAGE
        fitting = [row for row in told[each.place, each.name] if each.type in row.types]
        if each.place in ONE_SIDED:
            return any(each.sender in SENDERS.get(row.sent_by, {"client", "node"}) for row in fitting)
        return bool(fitting)

    assert sorted(each for each in seen if not is_told(each)) == []
    recorded = {(each.place, each.name) for each in seen}
    missing = {row.name for row in rows() if (row.place, row.name) not in recorded}
    assert missing == set(NOT_RECORDED)

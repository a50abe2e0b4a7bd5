"""`rstreams send` and `rstreams recv` at a node."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstreams.cli.envelope import envelope_line, read_envelope
from rstreams.cli.exit_codes import CommandEnded
from rstreams.cli.formats import writer_of
from rstreams.cli.positions import read_position
from rstreams.cli.templates import Template
from rstreams.message import (
    AmqpSequence,
    Array,
    Binary,
    Byte,
    Char,
    Decimal32,
    Described,
    Float,
    Int,
    Message,
    Symbol,
    UByte,
    ULong,
    decode_message,
    encode_item,
)
from tests.cli.commands import Run, node, run
from tests.cli.peers import CommandNode

__all__ = ["node", "run"]

slow = pytest.mark.slow

# the envelope


@pytest.mark.parametrize(
    "message",
    [
        Message(b"tea"),
        Message(b"\xff\x00"),
        Message(b""),
        Message(None),
        Message("a string"),
        Message({"article": 5, "prices": [1.5, True, None]}),
        Message(b'{"article":5}', content_type="application/json"),
        Message(b'{ "article": 5 }', content_type="application/cloudevents+json; charset=utf-8"),
        Message(b"no json", content_type="application/json"),
        Message(b"1e400", content_type="application/json"),
        Message(Binary(b"\x01")),
        Message(AmqpSequence([1, Int(2)])),
        Message(Array([], of=Symbol)),
        Message(Array([ULong(1), ULong(2)])),
        Message({1: "one", Symbol("s"): Char("c"), b"b": [Byte(-1)]}),
        Message(Described(Symbol("a:b"), [Float(1.5), float("inf"), Decimal("1.50"), Decimal32("2")])),
        Message(b"", id=uuid.UUID(int=7), correlation_id=b"\x01", reply_to="answers", subject="s", user_id=b"u"),
        Message(b"", id=5, ttl_s=1.5, durable=True, priority=9, group_id="g", group_sequence=7, address="to"),
        Message(b"", creation_time=datetime(2026, 11, 28, 1, 2, 3, 4000, tzinfo=UTC), expiry_time=datetime.now(UTC)),
        Message(b"", properties={"a/b~c": UByte(1), "": "", "when": datetime(1970, 1, 1, tzinfo=UTC)}),
        Message(b"", annotations={"x-opt": {"deep": [Symbol("x"), {"deeper": Int(1)}]}, 5: "a number"}),
    ],
)
def test_a_message_comes_through_the_envelope_unchanged(message: Message) -> None:
    encoded = encode_item(message)
    line = envelope_line(decode_message(encoded))
    assert "\n" not in line
    assert encode_item(read_envelope(line)) == encoded


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.uuids()
    | st.builds(Int, st.integers(-5, 5))
    | st.builds(Symbol, st.text("abc/~", max_size=3)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~1", max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers(0, 3), inner, max_size=2)
        | st.builds(Described, st.builds(Symbol, st.text("ab", min_size=1, max_size=2)), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(_values, st.dictionaries(st.text("ab/~", max_size=3), _values, max_size=3))
def test_any_value_comes_through_the_envelope_unchanged(body: object, annotations: dict[str | int, object]) -> None:
    encoded = encode_item(decode_message(encode_item(Message(body, annotations=annotations))))
    assert encode_item(read_envelope(envelope_line(decode_message(encoded)))) == encoded


def test_a_copy_begins_its_deliveries_anew() -> None:
    line = envelope_line(Message(b"a", delivery_count=3, first_acquirer=True))
    assert json.loads(line) == {"body": "a", "encoding": "text", "delivery_count": 3, "first_acquirer": True}
    assert read_envelope(line) == Message(b"a")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "it is not JSON"),
        ("[]", "an envelope is an object"),
        ("[" * 100_000, "it is not JSON"),
        ('{"body": 5, "encoding": "text"}', "AttributeError"),
        ('{"body": "x", "encoding": "hex"}', "non-hexadecimal"),
        ('{"body": "x", "encoding": "gzip"}', "encoding 'gzip': it must be text, json, hex or value"),
        ('{"bodi": "x"}', "an envelope has no field 'bodi'"),
        ('{"properties": []}', "properties must be an object"),
        ('{"body": 500, "encoding": "value", "types": {"/body": "ubyte"}}', "UByte(500)"),
        ('{"body": 5, "types": {"/body": "word"}}', "there is no type 'word' of AMQP"),
        ('{"body": 5, "types": {"/other/0": "int"}}', "KeyError"),
        ('{"body": 5, "types": []}', None),
        ('{"body": 5, "types": ["/body"]}', "TypeError"),
        ('{"body": 5, "types": {"": "int"}}', "ValueError"),
        ('{"creation_time": "yesterday"}', "Invalid isoformat"),
    ],
)
def test_an_envelope_that_cannot_be(line: str, told: str | None) -> None:
    if told is None:
        read_envelope(line)
        return
    with pytest.raises(CommandEnded) as caught:
        read_envelope(line)
    assert told in str(caught.value)
    assert caught.value.code == 2


# templates, formats, places


def test_templates_have_values_of_each_message() -> None:
    template = Template('{"n":{n}} {now} {uuid} {random:7} {{n}', "BODY")
    first, second = template.of(1), template.of(2)
    assert re.fullmatch(r'\{"n":1\} 20\d\d-\S+Z [0-9a-f-]{36} [\w-]{7} \{1', first)
    assert first != second
    assert Template('{"a": 1} {} {A} {a b}', "BODY").is_plain


@pytest.mark.parametrize("text", ["{m}", "{random}", "{random:0}", "{random:x}", "{random:99999999999}", "{n:5}"])
def test_a_template_that_cannot_be(text: str) -> None:
    with pytest.raises(CommandEnded, match=r"^--id: \{") as caught:
        Template(text, "--id")
    assert caught.value.code == 2


def test_a_format_has_the_parts_of_a_message() -> None:
    message = Message(
        [1, "a"],
        id="i",
        subject="u",
        content_type="c",
        reply_to="r",
        correlation_id=7,
        group_id="g",
        delivery_count=2,
        creation_time=datetime(2026, 1, 1, tzinfo=UTC),
        properties={"shop": "north"},
        annotations={"x-opt-partition-key": "k", "x-stream-offset": ULong(9)},
    )
    form = r"%s %k %i %p{shop} %p{none} %u %a{x-stream-offset} %o %t %c %d %r %C %g %S %n %%\t\\\0"
    told = rb'[1,"a"] k i north  u 9 9 2026-01-01T00:00:00.000Z c 2 r 7 g 7 3 %' + b"\t\\\0"
    assert writer_of(form)(message, 3) == told
    assert writer_of("%s")(Message("tea"), 1) == b"tea\n"
    assert json.loads(writer_of("%j")(message, 1))["subject"] == "u"


@pytest.mark.parametrize("form", ["%", "%x", r"\q", "%p", "\\", "%p{"])
def test_a_format_that_cannot_be(form: str) -> None:
    with pytest.raises(CommandEnded, match="--format: ") as caught:
        writer_of(form)
    assert caught.value.code == 2


def test_places_in_a_log() -> None:
    assert [read_position(each) for each in ("first", "last", "next", "42")] == ["first", "last", "next", 42]
    ago = read_position("@-1.5h")
    assert isinstance(ago, datetime)
    assert timedelta(hours=1.4) < datetime.now(UTC) - ago < timedelta(hours=1.6)
    assert read_position("@2026-11-28T10:00+02:00") == datetime(2026, 11, 28, 8, tzinfo=UTC)
    local = read_position("@2026-11-28")
    assert isinstance(local, datetime)
    assert local.tzinfo is not None


@pytest.mark.parametrize("text", ["", "begin", "-1", "@", "@yesterday", "@-1y", "@-99999999999d", "@+1h", "1.5"])
def test_a_place_that_cannot_be(text: str) -> None:
    with pytest.raises(CommandEnded, match="--from") as caught:
        read_position(text)
    assert caught.value.code == 2


# at a node


@slow
def test_arguments_are_sent_and_looked_at_and_taken(run: Run, node: CommandNode) -> None:
    queue = node.queue
    sent = run("send", queue, "tea", "--key", "k", "milk", "-p", "shop=north", "-p", "n:=5", "--subject", "{n}")
    assert (sent.code, sent.out) == (0, "")
    assert re.match(r"rstreams send: 2 sent: 2 accepted in ", sent.err)
    for _ in range(2):
        assert run("recv", queue, "-e").lines == ["tea", "milk"]
    looked = run("recv", queue, "-n", "1", "--json", "--quiet")
    assert looked.objects == [
        {
            "body": "tea",
            "encoding": "text",
            "subject": "1",
            "properties": {"shop": "north", "n": 5},
            "annotations": {"x-opt-partition-key": "k"},
        }
    ]
    assert (looked.code, looked.err) == (0, "")
    taken = run("recv", queue, "--take", "-n", "3", "-e", "--format", "%u %k %s %p{shop}")
    assert taken.lines == ["1 k tea north", "2 k milk north"]
    assert taken.code == 1, "only two of the three were there"
    assert run("recv", queue, "-e").out == ""


@slow
def test_a_queue_is_copied_by_json(run: Run, node: CommandNode, tmp_path: Path) -> None:
    one, other = node.queue, node.queue
    (tmp_path / "photo").write_bytes(b"\xff\x00")
    assert run("send", one, "--as", "value", '{"a": [1, null]}', "--id", "{uuid}", "--durable").code == 0
    assert run("send", one, "--as", "string", "text", "--ttl", "5000", "--priority", "7").code == 0
    assert run("send", one, "-f", str(tmp_path / "photo"), "--annotation", "x-opt-n:=5").code == 0
    before = run("recv", one, "--json", "-e")
    assert [each["encoding"] for each in before.objects] == ["value", "value", "hex"]
    assert run("send", other, "--jsonl", stdin=before.out.encode()).code == 0
    assert run("recv", other, "--json", "-e").out == before.out


@slow
def test_lines_and_rows_are_messages(run: Run, node: CommandNode, tmp_path: Path) -> None:
    queue = node.queue
    run("send", queue, stdin=b"one\r\ntwo\n\nlast")
    assert run("recv", queue, "--take", "-e").lines == ["one", "two", "", "last"]
    run("send", queue, "-n", "2", stdin=b"1\n2\n3\n")
    assert run("recv", queue, "--take", "-e").lines == ["1", "2"]
    run("send", queue, "--whole", stdin=b"1\n2\n")
    assert run("recv", queue, "--take", "-e", "--json").objects == [{"body": "1\n2\n", "encoding": "text"}]
    file = tmp_path / "orders.csv"
    file.write_text('article,text\n5,"a ""b""\nc"\n\n6,d\n')
    run("send", queue, "--csv", "-f", str(file))
    assert [each["body"] for each in run("recv", queue, "--take", "-e", "--json").objects] == [
        {"article": "5", "text": 'a "b"\nc'},
        {"article": "6", "text": "d"},
    ]
    run("send", queue, "-n", "5", "a{n}", "b", "--rate", "1000")
    assert run("recv", queue, "--take", "-e").lines == ["a1", "b", "a3", "b", "a5"]
    run("send", queue, "--no-templates", "{nothing}")
    assert run("recv", queue, "--take", "-e").lines == ["{nothing}"]


@slow
def test_messages_that_are_not_accepted_are_told(run: Run) -> None:
    sent = run("send", "small", "1", "2", "3", "4")
    assert sent.code == 1
    lines = sent.err.splitlines()
    assert lines[0].startswith("rstreams send: message 3 is not accepted: the receiver rejected an item")
    assert lines[-1].startswith("rstreams send: 4 sent: 2 accepted, 2 rejected")
    sent = run("send", "small", "5", "--json")
    failure, summary = sent.objects
    assert failure["n"] == 1
    assert failure["outcome"] == "rejected"
    assert failure["condition"] == "amqp:resource-limit-exceeded"
    seconds = summary.pop("seconds")
    assert summary == {"sent": 1, "accepted": 0, "rejected": 1, "released": 0, "modified": 0, "unknown": 0}
    assert seconds < 60
    assert sent.code == 1
    run("recv", "small", "--take", "-e")


@slow
def test_messages_are_given_back_and_rejected(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, "1", "2", "3")
    back = run("recv", queue, "--take", "--settle", "release", "-n", "2")
    assert back.lines == ["1", "2"]
    assert "2 messages given back" in back.err
    assert run("recv", queue, "--take", "--settle", "reject", "-n", "1").lines == ["1"]
    assert run("recv", queue, "-e").lines == ["2", "3"]


@slow
def test_a_log_is_read_from_a_place(run: Run) -> None:
    assert run("send", "events", "a", "b", "c").code == 0
    assert run("recv", "events", "-e").lines == ["a", "b", "c"]
    assert run("recv", "events", "-e", "--from", "1", "--format", "%o %s").lines == ["1 b", "2 c"]
    assert run("recv", "events", "--from", "last", "-n", "1").lines == ["c"]
    assert run("recv", "events", "-e", "--from", "@-1h").lines == ["a", "b", "c"]
    assert run("recv", "events", "--group", "billing", "--from", "first", "-n", "2").lines == ["a", "b"]
    assert run("recv", "events", "--group", "billing", "-e").lines == ["c"]


@slow
def test_what_a_log_has_no_more_is_counted(run: Run) -> None:
    run("send", "newest", "1", "2", "3", "--key", "k")
    run("send", "newest", "4", "--key", "other")
    seen = run("recv", "newest", "--from", "first", "-e")
    assert seen.lines[-1] == "4"
    gaps = 4 - len(seen.lines)
    first = int(run("recv", "newest", "--from", "first", "-n", "1", "--format", "%o").out)
    assert (f"{gaps - first:,} messages were skipped" in seen.err) == (gaps - first > 0)


@slow
def test_each_message_is_written_into_a_file(run: Run, node: CommandNode, tmp_path: Path) -> None:
    queue = node.queue
    run("send", queue, "a\nb", "c")
    assert run("recv", queue, "-e", "--out", str(tmp_path / "out")).out == ""
    assert (tmp_path / "out" / "000001.body").read_text() == "a\nb"
    again = run("recv", queue, "--take", "-e", "--out", str(tmp_path / "out"))
    assert again.code == 2
    assert "000001.body is there already; give an empty folder" in again.err
    assert run("recv", queue, "--take", "-e", "--json", "--out", str(tmp_path / "out")).code == 0
    copy = run("send", queue, "--jsonl", "-f", str(tmp_path / "out" / "000001.json"))
    assert copy.code == 0
    assert run("recv", queue, "-n", "1").out == "a\nb\n"


@slow
def test_a_step_asks_for_one_message(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, "1", "2", "3")
    assert run("recv", queue, "--take", "--step", "-n", "2", stdin=b"\n\n\n").lines == ["1", "2"]
    assert run("recv", queue, "-e").lines == ["3"]


@slow
def test_at_most_once_waits_for_nothing(run: Run, node: CommandNode) -> None:
    queue = node.queue
    assert run("send", queue, "a", "--at-most-once").code == 0
    assert run("recv", queue, "-n", "1").lines == ["a"]


@slow
def test_what_a_node_does_not_do_is_said(run: Run, node: CommandNode) -> None:
    delayed = run("send", node.queue, "a", "--delay", "5")
    assert delayed.code == 3
    assert "rstreams keeps no message back on request" in delayed.err
    filtered = run("recv", node.queue, "--filter", "a = 1")
    assert filtered.code == 3
    assert "it has no filter by expressions" in filtered.err


@slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["send", "q", "a", "-n", "0"], "-n 0: give a number of messages"),
        (["send", "q", "a", "--rate", "0"], "--rate 0: give a number of messages a second"),
        (["send", "q", "a", "--rate", "nan"], "--rate nan: give a number"),
        (["send", "q", "a", "--file", "x"], "BODY and --file: give one of them"),
        (["send", "q", "a", "--jsonl"], "BODY and --jsonl"),
        (["send", "q", "--file", "/none/such"], "--file '/none/such' cannot be read: No such file"),
        (["send", "q", "--lines", "--file", "/"], "--file '/' cannot be read: Is a directory"),
        (["send", "q", "{m}"], "BODY: {m} is no template"),
        (["send", "q", "a", "--id", "{m}"], "--id: {m} is no template"),
        (["send", "q", "a", "--ttl", "-1"], "--ttl -1: give a number of seconds above 0"),
        (["send", "q", "a", "--priority", "256"], "--priority 256: give a number from 0 to 255"),
        (["send", "q", "a", "--delay", "0"], "--delay 0: give a number of seconds"),
        (["send", "q", "a", "-p", "x"], "--property 'x': give NAME=TEXT, or NAME:=JSON"),
        (["send", "q", "a", "-p", "x:=y"], "--property 'x:=y': what follows := is not JSON"),
        (["send", "q", "a", "-p", "x:=[1]"], "properties"),
        (["send", "q0", "--as", "value", "{"], "a body is not JSON"),
        (["send", "q", "--jsonl", "--as", "value"], "--jsonl and --as"),
        (["send", "q", "--csv", "--as", "string"], "--csv and --as string"),
        (["recv", "q", "-n", "0"], "-n 0: give a number of messages"),
        (["recv", "q", "--settle", "reject"], "--settle: messages that are only looked at are not settled"),
        (["recv", "q", "--from", "then"], "--from 'then': give first, last, next"),
        (["recv", "q", "--take", "--from", "first"], "--from and --take"),
        (["recv", "q", "--take", "--group", "g"], "--group and --take"),
        (["recv", "q", "--format", "%z"], "--format: '%z' is none of %s %k"),
        (["recv", "q", "--json", "--format", "%s"], "--json and --format: give one of them"),
        (["recv", "q", "--out", "/dev/null/x"], "--out '/dev/null/x': Not a directory"),
        (["recv", "q", "--out", "out", "--format", "%s"], "--out and --format"),
        (["recv", ""], "address"),
        (["send", "", "a"], "address"),
    ],
)
def test_an_option_that_cannot_be(words: list[str], told: str, run: Run) -> None:
    ended = run(*words)
    *summary, line = ended.err.splitlines()
    assert (ended.code, ended.out) == (2, "")
    assert summary in ([], ["rstreams send: nothing was sent"])
    assert line.startswith(f"rstreams {words[0]}: ")
    assert told in line


@slow
@pytest.mark.parametrize(
    ("words", "content", "told", "before"),
    [
        (["--jsonl"], b'{"body": "a"}\n\n{"body"\n', "standard input, line 3: it is not JSON", ["a"]),
        (["--csv"], b"a,b\n1,2\n3\n", "a row has 1 values, and the first one 2 names", ['{"a": "1", "b": "2"}']),
        (["--csv"], b'a\n"1\n', "the quotes of the last row are not closed", []),
        (["--csv"], b"a\n\xff\n", "it is no row of CSV", []),
        (["--as", "string"], b"a\n\xff\n", "a body is not UTF-8 text; give --as bytes", ["a"]),
    ],
)
def test_input_that_cannot_be(  # noqa: PLR0917 - pytest gives them by name
    words: list[str], content: bytes, told: str, before: list[str], run: Run, node: CommandNode
) -> None:
    queue = node.queue
    ended = run("send", queue, *words, stdin=content)
    assert ended.code == 2
    assert told in ended.err.splitlines()[-1]
    assert run("recv", queue, "-e").lines == before, "what came before the mistake is sent"

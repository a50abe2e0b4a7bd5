"""Messages encoded and decoded in a second of processor time, beside proton, msgpack, msgspec and pickle.

    python -m benchmarks.codec [--json FILE]

`full` is a message with id, subject, content type, creation time, correlation id, four properties, two annotations, the
durable flag and a body of 1 KB. `dict` is a message whose body is a small dict, and nothing else.

Only proton makes AMQP messages, too. The others encode the same content in their own formats: msgpack encodes a dict,
msgspec a `Struct`, pickle our `Message`. Before anything is measured, each candidate decodes what it has encoded.

The rows of `python` show the functions in Python, which the codec calls for rare and malformed values.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import msgpack
import msgspec
import proton

from benchmarks._report import Row, Trial, bigger_is_better, by_itself, interleaved, report
from rstreams import message as codec
from rstreams.message import Message, decode_body, decode_message, encode_item

ROUND_S = 0.1
RUNS = 15

NOW = datetime(2026, 11, 22, 12, 30, 0, 125_000, tzinfo=UTC)
FULL = Message(
    b"x" * 1024,
    id="order-00001234",
    subject="orders",
    content_type="application/json",
    creation_time=NOW,
    correlation_id="request-5678",
    properties={"region": "north", "attempt": 3, "weight": 12.5, "gift": True},
    annotations={"x-opt-partition": 7, "x-opt-source": "shop"},
    durable=True,
)
DICT = {"id": 1234, "name": "lamp", "price": 9.5, "tags": ["new", "light"], "in_stock": True, "supplier": None}


class Candidate(NamedTuple):
    """One way to encode and to decode the same content."""

    encode: Callable[[], Any]
    decode: Callable[[bytes], Any]
    content: Callable[[Any], object]
    """What is to be the same as before, of what was decoded."""


class Record(msgspec.Struct):
    """What msgspec encodes in place of a `Message`."""

    body: bytes
    id: str
    subject: str
    content_type: str
    creation_time: datetime
    correlation_id: str
    properties: dict[str, Any]
    annotations: dict[str, Any]
    durable: bool


def _proton(message: proton.Message) -> Candidate:
    def decode(encoded: bytes) -> proton.Message:
        decoded = proton.Message()
        decoded.decode(encoded)
        return decoded

    return Candidate(
        message.encode, decode, lambda decoded: bytes(body) if isinstance(body := decoded.body, memoryview) else body
    )


def _full_of_proton() -> proton.Message:
    message = proton.Message(
        body=FULL.body,
        id=FULL.id,
        subject=FULL.subject,
        content_type=FULL.content_type,
        creation_time=NOW.timestamp(),
        correlation_id=FULL.correlation_id,
        properties=dict(FULL.properties),
        durable=True,
    )
    message.inferred = True  # bytes travel as a data section, as here
    message.annotations = {proton.symbol(name): value for name, value in FULL.annotations.items()}
    return message


def _ours(item: object, decode: Callable[[bytes], Any]) -> Candidate:
    return Candidate(
        lambda: encode_item(item), decode, lambda decoded: decoded.body if isinstance(decoded, Message) else decoded
    )


def _full() -> dict[str, Candidate]:
    names = Record.__struct_fields__
    fields = {name: value for name, value in asdict(FULL).items() if name in names}
    record = Record(**fields)
    decoder = msgspec.msgpack.Decoder(Record)
    encoder = msgspec.msgpack.Encoder()
    return {
        "ours": _ours(FULL, decode_message),
        "proton": _proton(_full_of_proton()),
        "msgpack": Candidate(
            lambda: msgpack.packb(fields, datetime=True),
            lambda encoded: msgpack.unpackb(encoded, timestamp=3),
            lambda decoded: decoded["body"],
        ),
        "msgspec": Candidate(lambda: encoder.encode(record), decoder.decode, lambda decoded: decoded.body),
        "pickle": Candidate(lambda: pickle.dumps(FULL), pickle.loads, lambda message: message.body),
        "python": Candidate(
            lambda: in_python.encode_item(FULL), in_python.decode_message, lambda message: message.body
        ),
    }


def _dict() -> dict[str, Candidate]:
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()
    return {
        "ours": _ours(DICT, decode_body),
        "proton": _proton(proton.Message(body=DICT)),
        "msgpack": Candidate(lambda: msgpack.packb(DICT), msgpack.unpackb, lambda body: body),
        "msgspec": Candidate(lambda: encoder.encode(DICT), decoder.decode, lambda body: body),
        "pickle": Candidate(lambda: pickle.dumps(DICT), pickle.loads, lambda body: body),
        "python": Candidate(lambda: in_python.encode_item(DICT), in_python.decode_body, lambda body: body),
    }


in_python = codec._IN_PYTHON  # noqa: SLF001 - it has no other name


def _rate(call: Callable[[], object], round_s: float) -> Callable[[], float]:
    """Return a function that measures calls a second for about `round_s`."""
    began = process_time()
    for _ in range(100):
        call()
    calls = max(100, int(100 * round_s / (process_time() - began)))

    def measure() -> float:
        gc.collect()
        began = process_time()
        for _ in range(calls):
            call()
        return calls / (process_time() - began)

    return measure


def _decoding(candidate: Candidate) -> Callable[[], object]:
    decode, encoded = candidate.decode, candidate.encode()
    return lambda: decode(encoded)


def _rows(case: str, candidates: dict[str, Candidate], expected: object) -> list[Row]:
    for name, candidate in candidates.items():
        decoded = candidate.content(candidate.decode(candidate.encode()))
        assert decoded == expected, f"{case}: {name} decodes something else"
    rows = []
    encoding = {name: _rate(candidate.encode, ROUND_S) for name, candidate in candidates.items()}
    decoding = {name: _rate(_decoding(candidate), ROUND_S) for name, candidate in candidates.items()}
    for direction, rate_of in (("encode", encoding), ("decode", decoding)):
        rates = interleaved(RUNS, rate_of)
        n = int(rates["ours"] * ROUND_S)
        rows += [
            bigger_is_better(
                f"codec/{case}/{direction}",
                ours=rates["ours"],
                peer=rates[peer],
                peer_name=peer,
                n=n,
                unit="messages/s",
            )
            for peer in candidates
            if peer != "ours"
        ]
    return rows


def measure() -> list[Row]:
    """Measure every case; one row for each peer."""
    return _rows("full", _full(), FULL.body) + _rows("dict", _dict(), DICT)


def trials(scale: float) -> list[Trial]:
    """Return our cases without peers, each so many times as long as usual."""
    found = []
    for content, ours in (("full", _ours(FULL, decode_message)), ("dict", _ours(DICT, decode_body))):
        for direction, call in (("encode", ours.encode), ("decode", _decoding(ours))):
            case = f"codec/{content}/{direction}"
            found.append(Trial((case,), partial(_by_itself, case, call, scale * ROUND_S)))
    return found


def _by_itself(case: str, call: Callable[[], object], round_s: float) -> list[Row]:
    figure = interleaved(RUNS, {case: _rate(call, round_s)})[case]
    return [by_itself(case, figure, n=int(figure * round_s), unit="messages/s", cpu_us=1e6 / figure)]


if __name__ == "__main__":
    report("Encoding and decoding, messages a second of processor time (median of interleaved runs)", measure)

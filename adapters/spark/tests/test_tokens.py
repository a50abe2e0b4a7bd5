"""Connection strings and functions that make tokens."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from rstreams_spark import _connections
from rstreams_spark._options import SinkOptions, SourceOptions
from rstreams_spark._outbox import Outbox
from rstreams_spark._receiver import Receiver
from rstreams_spark._rows import SentRows

from rstreams.errors import ConfigError
from rstreams.message import encode_item
from rstreams.net.cbs import SharedAccessKey, Token
from tests.net.token_node import TokenNode

KEY = "se/cr=et+key="
STRING = f"Endpoint=sb://name.servicebus.windows.net/;SharedAccessKeyName=reader;SharedAccessKey={KEY}"


def token_for(_audience: str) -> Token:
    """Return a token."""
    return Token("t", datetime.now(UTC) + timedelta(hours=1))


def parse(**options: str) -> SourceOptions:
    return SourceOptions.parse({"address": "orders"} | options)


def test_a_connection_string_names_the_peer_and_signs_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "string").write_text(STRING + "\n")
    monkeypatch.setenv("SERVICE_BUS", STRING)
    for way in (
        {"connectionstring": STRING},
        {"connectionstringfile": str(tmp_path / "string")},
        {"connectionstringenv": "SERVICE_BUS"},
    ):
        peer = parse(**way).peer
        assert peer.connect_url() == "amqps://name.servicebus.windows.net:5671"
        assert str(peer) == "name.servicebus.windows.net:5671"
        options = peer.connect_options()
        assert options["cbs"] == SharedAccessKey("amqps://name.servicebus.windows.net", "reader", KEY)
        assert options["dialect"] == "servicebus"


def test_a_connection_string_may_name_the_address_and_be_for_an_emulator() -> None:
    options = SourceOptions.parse({"connectionstring": f"{STRING};EntityPath=orders;UseDevelopmentEmulator=true"})
    assert options.address == "orders"
    assert options.peer.connect_url() == "amqp://name.servicebus.windows.net:5672"
    assert SinkOptions.parse({"connectionstring": f"{STRING};EntityPath=orders"}).address == "orders"


def test_the_key_is_in_no_text_and_in_no_copy_of_a_reader() -> None:
    options = parse(connectionstring=STRING)
    assert KEY not in repr(options)
    assert KEY.encode() in pickle.dumps(options)
    assert KEY.encode() not in pickle.dumps(options.without_secrets())


def test_a_function_makes_tokens() -> None:
    peer = parse(url="amqps://h", tokenfunction=f"{__name__}:token_for").peer
    options = peer.connect_options()
    assert options["cbs"].__name__ == "token_for"
    assert "dialect" not in options
    assert parse(url="amqps://h", dialect="servicebus").peer.connect_options()["dialect"] == "servicebus"


async def test_a_sink_and_a_source_get_in_by_a_connection_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connections, "_kept", {})
    async with TokenNode() as node:
        node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        place = f"Endpoint=sb://127.0.0.1:{listener.port};UseDevelopmentEmulator=true;EntityPath=orders"
        options = {"connectionstring": f"{place};SharedAccessKeyName=Root;SharedAccessKey=c2VjcmV0"}
        await trio.to_thread.run_sync(send_and_receive, options)
        assert node.refused == []


def send_and_receive(options: dict[str, str]) -> None:
    with Outbox(SinkOptions.parse(options), "task") as outbox:
        outbox.put({"orders": SentRows((0,), [encode_item(b"1")])})
        outbox.finish()
    (connection,) = _connections._kept.values()
    connection.close()
    receiver = Receiver(SourceOptions.parse(options), lambda: None)
    while not any(True for _ in receiver.collect(0, 1)):
        pass
    receiver.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"connectionstring": "Endpoint=sb://h;SharedAccessKeyName=n"},
            "option connectionString: connection string: it",
        ),
        ({"connectionstring": f"Endpoint=sb://h{KEY}"}, "option connectionString: connection string: it has no Shared"),
        ({"connectionstring": STRING, "url": "amqps://h"}, "option url: not allowed beside option connectionString"),
        ({"connectionstring": STRING, "username": "u"}, "option username: not allowed beside option connectionString"),
        ({"connectionstringenv": "NOT_SET"}, "option connectionStringEnv='NOT_SET': the environment has no such"),
        (
            {"url": "amqps://h", "tokenfunction": "nowhere:f"},
            "option tokenFunction='nowhere:f': No module named 'nowhere'",
        ),
        (
            {"url": "amqps://h", "tokenfunction": "json"},
            "option tokenFunction='json': must be package.module:function, ",
        ),
        (
            {"url": "amqps://h", "tokenfunction": "json:loads", "connectionstring": STRING},
            "options connectionString and tokenFunction: only one of them",
        ),
    ],
)
def test_what_cannot_work_is_named_without_the_key(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(**options)
    assert text in str(caught.value)
    assert KEY not in str(caught.value)

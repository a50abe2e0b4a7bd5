"""A config file: what it describes, and every way in which it can be wrong, with the line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rstreams import Stream
from rstreams.node import PasswordHash, Permission, UserLimits
from rstreams.node.config import (
    BrokenConfig,
    DeclaredAddress,
    DeclaredHttp,
    DeclaredListener,
    NodeConfig,
    TlsFiles,
    read_config,
)
from tests.net.certificates import Files

HASH = "$scrypt$ln=1,r=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g"


def read(folder: Path, text: str) -> NodeConfig:
    file = folder / "node.toml"
    file.write_text(text, encoding="utf-8")
    return read_config(file)


def wrong(folder: Path, text: str) -> list[tuple[int | None, str]]:
    """Return the line and the text of each problem."""
    with pytest.raises(BrokenConfig) as caught:
        read(folder, text)
    return [(each.line, each.text) for each in caught.value.problems]


# what it describes


def test_an_empty_file_is_a_node_on_loopback(tmp_path: Path) -> None:
    config = read(tmp_path, "")
    assert config == NodeConfig()
    assert [each.where for each in config.listeners] == ["127.0.0.1:5672"]


def test_a_whole_node(tmp_path: Path) -> None:
    files = Files(tmp_path)
    config = read(
        tmp_path,
        f"""
[node]
max_links = 7
max_message_bytes = "none"
drain_s = 3
[[listen]]
place = "0.0.0.0:5671"
tls = {{ certificate = "node.pem", key = "node.key", client_ca = "ca.pem", require_client_certificate = false }}
max_connections = 9
[[listen]]
place = "127.0.0.1:5672"
[queues.orders]
dead_letters = "dead"
capacity = 5
redelivery_delay_s = 1
[queues.dead]
[multicasts."prices.eu"]
overflow = "drop_oldest"
[users.alice]
password = "{HASH}"
[users.bob]
certificates = ["CN=bob,O=Example", "CN=bobby"]
limits = {{ items_per_s = 10 }}
[limits]
links = 4
[[permissions]]
users = "alice"
addresses = ["orders", "prices.*"]
allow = ["publish", "subscribe"]
""",
    )
    tls = TlsFiles(str(files.node), str(files.node_key), None, str(files.ca), require_client_certificate=False)
    assert config == NodeConfig(
        node={"max_links": 7, "max_message_bytes": None},
        users={"alice": PasswordHash(HASH)},
        certificate_users={"CN=bob,O=Example": "bob", "CN=bobby": "bob"},
        permissions=(Permission("alice", ("orders", "prices.*"), ("publish", "subscribe")),),
        limits={"bob": UserLimits(items_per_s=10), "*": UserLimits(links=4)},
        addresses=(
            DeclaredAddress("queues", "dead"),
            DeclaredAddress("queues", "orders", {"dead_letters": "dead", "capacity": 5, "redelivery_delay_s": 1}),
            DeclaredAddress("multicasts", "prices.eu", {"overflow": "drop_oldest"}),
        ),
        listeners=(
            DeclaredListener("0.0.0.0:5671", tls, {"max_connections": 9}),
            DeclaredListener("127.0.0.1:5672"),
        ),
        drain_s=3,
    )
    statistics = config.make().statistics()
    assert statistics.queues["orders"].capacity == 5
    assert statistics.multicasts["prices.eu"].overflow == "drop_oldest"


def test_streams_and_handlers_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_of_test.py").write_text(
        "from rstreams import Stream\nprices = Stream.range(3)\n"
        "def later(at): return Stream.range(at, 9)\nclass Sums:\n    def add(pair): return sum(pair)\n"
    )
    monkeypatch.delitem(sys.modules, "shop_of_test", raising=False)
    before = list(sys.path)
    config = read(
        tmp_path,
        '[served.prices]\npublisher = "shop_of_test:prices"\n[responders.sums]\nhandler = "shop_of_test:Sums.add"\n'
        '[served.later]\nfrom_offset = "shop_of_test:later"\n',
    )
    assert sys.path == before
    assert isinstance(config.addresses[0].options["publisher"], Stream)
    assert config.addresses[2].options["handler"]([1, 2]) == 3
    assert set(config.make().statistics().served) == {"prices", "later"}


def test_metrics_and_probes(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls_files = 'tls = { certificate = "node.pem", key = "node.key" }'
    config = read(tmp_path, f'[http]\nplace = "127.0.0.1:9000"\nmax_connections = 3\n{tls_files}\n')
    tls = TlsFiles(str(files.node), str(files.node_key))
    assert config.http == DeclaredHttp("127.0.0.1:9000", tls, {"max_connections": 3})
    assert str(config.http).startswith(f"metrics and probes at 127.0.0.1:9000: TLS with {files.node}, anonymous=False")
    assert read(tmp_path, "[http]\n").http == DeclaredHttp()
    assert DeclaredHttp().where == "127.0.0.1:15692"
    assert read(tmp_path, "").http is None


def test_what_would_run_names_every_option(tmp_path: Path) -> None:
    lines = read(tmp_path, '[queues.orders]\ncapacity = 5\n[users.alice]\npassword = "' + HASH + '"\n').lines()
    assert lines[0].startswith("node: idle_timeout_s=30.0, max_frame_bytes=131072")
    assert lines[1].startswith("listener 127.0.0.1:5672: plain AMQP, anonymous=False, allow_plain_over_tcp=False")
    assert lines[2].startswith("queue 'orders': capacity=5, dead_letters=None, max_deliveries=None")
    assert lines[3] == "user 'alice': with a password"
    assert HASH not in "\n".join(lines)


# what is wrong


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[http]\nplace = 7", 2, "place = 7: it must be a text, host:port"),
        ("[http]\nmax_conections = 7", 2, "http has no 'max_conections'; did you mean 'max_connections'?"),
        ("[http]\nmax_connections = 0", 2, "max_connections=0: max_connections must be 1 to 2147483647 connections"),
        ('[http]\nplace = "0.0.0.0:80"', 2, "other machines can reach it, and there are no users"),
        ('[http]\nplace = "127.0.0.1:5672"\n[[listen]]', 2, "the node listens at 127.0.0.1:5672 already"),
        ("[[http]]", 1, "http"),
        ("[node]\nmax_links = 0", 2, "max_links=0: max_links must be 1 to 2147483647 links"),
        ("[node]\nmax_links = '7'", 2, "max_links = '7': it must be a whole number"),
        ("[node]\nmax_links = true", 2, "max_links = True: it must be a whole number"),
        ("[node]\nmax_linsk = 7", 2, "node has no 'max_linsk'; did you mean 'max_links'?"),
        ("[node]\nidle_timeout_s = 'long'", 2, "idle_timeout_s = 'long': it must be a number"),
        ("[node]\nexpose_errors = 1", 2, "expose_errors = 1: it must be true or false"),
        ("[node]\ndrain_s = -1", 2, "drain_s=-1: drain_s must be a finite number of seconds, 0 or more"),
        (
            "[node]\nmax_unfinished_bytes=9\nmax_message_bytes=99999999",
            3,
            "as many must be allowed by max_unfinished_b",
        ),
        ("node = 5", 1, "node = 5: it must be a table"),
        ("\n[nodes]", 2, "the file has no 'nodes'; did you mean 'node'?"),
        ("[listen]", 1, "listen must be a list of tables: [[listen]]"),
        ("[[listen]]\nplace = 5672", 2, "place = 5672: it must be a text, host:port"),
        ("[[listen]]\nplace = 'nowhere'", 2, "listen='nowhere': give host:port"),
        ("[[listen]]\nmax_connections = 0", 2, "max_connections=0"),
        ("[[listen]]\nanonymous = 'yes'", 2, "anonymous = 'yes': it must be true or false"),
        ("[[listen]]\nport = 5", 2, "listen has no 'port'; there are place, tls, anonymous, "),
        ("[[listen]]\n[[listen]]\nplace='127.0.0.1:5672'", 3, "the node listens at 127.0.0.1:5672 already"),
        ("[[listen]]\nplace = '0.0.0.0:5672'", 2, "everyone would be let in; add users, require client"),
        ("[[listen]]\nplace = 'shop.example:5672'", 2, "everyone would be let in"),
        ("[[listen]]\nplace='0.0.0.0:1'\n[users.a]\npassword='" + HASH + "'", 2, "passwords would come in clear text"),
        ("[[listen]]\ntls = {}", 2, "listen.tls has no 'certificate', which must be given"),
        ("[[listen]]\ntls = 'node.pem'", 2, "listen.tls = 'node.pem': it must be a table"),
        ("[[listen]]\n[listen.tls]\ncertificate = 'no.pem'", 3, "no.pem': the file cannot be read"),
        ("[[listen]]\n[listen.tls]\ncertificate='node.pem'\nkey = 'alice.pem'", 4, "this is not the private key"),
        ("[[listen]]\n[listen.tls]\ncertificate='alice.pem'\nclient_ca = 'node.key'", 4, "it holds no certificates"),
        (
            "[[listen]]\n[listen.tls]\ncertificate='alice.pem'\npassword_file = 'no'",
            4,
            "the file cannot be read: No such",
        ),
        ("queues = 5", 1, "queues = 5: it must be a table"),
        ("[queues]\norders = 5", 2, "queues.orders = 5: it must be a table"),
        ("[queues.orders]\ncapacity = 0", 2, "queue 'orders'(capacity=0): capacity must be 1 or more messages"),
        ("[queues.orders]\ncapacity = 1.5", 2, "capacity = 1.5: it must be a whole number"),
        ("[queues.orders]\ncapacty = 1", 2, "queues.orders has no 'capacty'; did you mean 'capacity'?"),
        ("[queues.orders]\nredelivery_delay_factor = 0.5", 2, "redelivery_delay_factor"),
        ("[queues.orders]\n\ndead_letters = 'daed'", 3, "dead_letters = 'daed': there is no such address"),
        ("[queues.orders]\ndead_letters = 'orders'", 2, "dead letters go in a circle: orders -> orders"),
        ("[queues.a]\ndead_letters='b'\n[queues.b]\ndead_letters='a'", 2, "in a circle: a -> b -> a"),
        ("[queues.a]\ndead_letters='m'\n[multicasts.m]", 2, "queue 'a': dead_letters='m': it must be a queue"),
        ("[queues.'$orders']", 1, 'name must be a string that does not begin with "$"'),
        ("[queues.x]\n[multicasts.x]", 2, "the node has one of this name already"),
        (
            "node.store = 'data'\n[queues.x-1]\n[logs.x]\npartitions = 2",
            3,
            "address 'x-1': the node has one of this name",
        ),
        ("[queues.'/management']", 1, "the node has one of this name already"),
        ("[multicasts.m]\noverflow = 'drop'", 2, "overflow = 'drop': it must be 'block' or 'drop_oldest'"),
        ("[served.s]", 1, "served stream 's': give either a publisher or from_offset"),
        ("[served.s]\npublisher = 5", 2, 'publisher = 5: it must be an object of Python, as "module:name"'),
        ("[served.s]\npublisher = 'nowhere_at_all:x'", 2, "it cannot be imported: ModuleNotFoundError"),
        ("[served.s]\npublisher = 'os:path'", 2, "publisher"),
        ("[responders.r]\nhandler = 'os:sep'", 2, "handler"),
        ("[users.alice]", 1, "user 'alice' has neither a password nor certificates"),
        ("[users.alice]\npassword = 5", 2, "the hash of a password must look like $scrypt$"),
        ("[users.alice]\npassword='" + HASH + "'\npasswrod = 'x'", 3, "users.alice has no 'passwrod'; did you mean"),
        ("[users.alice]\npassword='" + HASH + "'\ncertificates = 'alice'", 3, "'alice' is not the subject of a certif"),
        ("[users.alice]\ncertificates = []", 2, "certificates = []: it must be a text or a list of texts"),
        ("[users.alice]\ncertificates = 'CN=a'", 2, "no listener asks for client certificates"),
        ("[users.a]\npassword='" + HASH + "'\nlimits = { links = 0 }", 3, "links=0: links must be 1 to"),
        (
            "[users.a]\npassword='" + HASH + "'\n[users.a.limits]\nlink = 1",
            4,
            "limits has no 'link'; did you mean 'links'",
        ),
        ("[limits]\nitems_per_s = -1", 2, "items_per_s=-1"),
        ("[permissions]", 1, "permissions must be a list of tables: [[permissions]]"),
        ("[[permissions]]\nusers='*'\nallow='manage'", 1, "a permission has no 'addresses', which must be given"),
        ("[[permissions]]\nusers='*'\naddresses=[]\nallow='manage'", 3, "addresses = []: it must be a text or a list"),
        ("[[permissions]]\nusers='*'\naddresses='a'\nallow=['read']", 4, "'read' is not an action; there are publish"),
        ("[[permissions]]\nusers='*'\naddresses='a'\nallow='read'", 4, "'read' is not an action"),
        (
            "[users.a]\npassword='" + HASH + "'\n[[permissions]]\nusers='b'\naddresses='a'\nallow='manage'",
            4,
            "no user 'b'",
        ),
        ("a = 1\na = 2", 2, "it is not TOML: Cannot overwrite a value"),
        ("[node", 1, "it is not TOML"),
        ("[node]\nmax_links =", 2, "it is not TOML"),
    ],
)
def test_one_thing_that_is_wrong(text: str, line: int, told: str, tmp_path: Path) -> None:
    Files(tmp_path)
    problems = wrong(tmp_path, text)
    assert len(problems) == 1, problems
    assert problems[0][0] == line, problems
    assert told in problems[0][1]


def test_all_that_is_wrong_is_told_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = "[node]\nmax_links = 0\nmax_sessions = 0\n[queues.a]\ncapacity = 0\nmax_deliveries = 0\n[limits]\nlinks = 0"
    assert [line for line, _ in wrong(tmp_path, text)] == [2, 3, 5, 6, 8]


def test_a_plain_password_is_refused_and_not_repeated(tmp_path: Path) -> None:
    ((line, told),) = wrong(tmp_path, '[users.alice]\npassword = "hunter2"')
    assert line == 2
    assert "hunter2" not in told
    assert "rstreams node hash-password" in told


def test_a_certificate_of_two_users(tmp_path: Path) -> None:
    Files(tmp_path)
    tls = "[[listen]]\ntls = { certificate = 'alice.pem', client_ca = 'ca.pem' }\n"
    text = tls + "[users.alice]\ncertificates = 'CN=a'\n[users.bob]\ncertificates = 'CN=a'"
    assert wrong(tmp_path, text) == [(6, "the certificate 'CN=a' is that of user 'alice'")]


def test_an_open_node_beyond_loopback_must_say_so(tmp_path: Path) -> None:
    place = '[[listen]]\nplace = "0.0.0.0:0"\nanonymous = true'
    assert read(tmp_path, place).listeners[0].place == "0.0.0.0:0"
    Files(tmp_path)
    mutual = '[[listen]]\nplace = "0.0.0.0:0"\ntls = { certificate = "alice.pem", client_ca = "ca.pem" }'
    assert read(tmp_path, mutual).listeners[0].tls is not None


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BrokenConfig, match=r"none\.toml: it cannot be read: No such file or directory$"):
        read_config(tmp_path / "none.toml")
    file = tmp_path / "bytes.toml"
    file.write_bytes(b"a = 1\nb = '\xff'")
    with pytest.raises(BrokenConfig, match=r"bytes\.toml:2: it is not UTF-8 text$"):
        read_config(file)


def test_one_line_for_the_first_problem_and_the_number_of_the_others(tmp_path: Path) -> None:
    with pytest.raises(BrokenConfig) as caught:
        read(tmp_path, "[node]\nmax_links = 0\nmax_sessions = 0")
    file = tmp_path / "node.toml"
    more = f"(and 1 more: `rstreams node --config {file} --check` shows them)"
    assert str(caught.value) == f"{file}:2: max_links=0: max_links must be 1 to 2147483647 links {more}"


def test_windows_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_bytes(b"[node]\r\n\r\nmax_links = 0\r\n")
    with pytest.raises(BrokenConfig, match=":3: max_links=0"):
        read_config(file)

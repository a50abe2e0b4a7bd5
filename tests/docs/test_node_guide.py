"""The guide to running a node has a file that is checked and complete; the guide to addresses has what each does."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rstreams import Node
from rstreams._codec.asking import Wish
from rstreams.cli.__main__ import main
from rstreams.net.transport.accounts import UserLimits
from rstreams.node.address import Address
from rstreams.node.config import TlsFiles, read_config
from rstreams.node.config.description import ACCESS, DEFAULT_HTTP_PLACE
from rstreams.node.kinds import KINDS
from rstreams.node.plain_options import REQUIRED, PlainOption, options_of
from tests.docs.examples import ROOT
from tests.net.certificates import Files

GUIDE = (ROOT / "docs" / "guides" / "node.md").read_text(encoding="utf-8")
ADDRESSES = (ROOT / "docs" / "guides" / "addresses.md").read_text(encoding="utf-8")
(FILE,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
OPTION = re.compile(r"^(?:# )?(\w+) = .*#.*?(?:\((\S*)\))?$", re.MULTILINE)


def defaults_in(table: str) -> dict[str, str]:
    """Return the options that the tables of a name have in the example, each with the default that is told."""
    parts = re.split(r"^\[+([^\]]*)\]+.*$", FILE, flags=re.MULTILINE)
    found: dict[str, str] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        if name == table or name.startswith(f"{table}."):
            found |= {option: default for option, default in OPTION.findall(text) if option not in found or default}
    return found


def told(option: PlainOption) -> str:
    return "" if option.default is REQUIRED else getattr(option.default, "__name__", str(option.default))


@pytest.mark.slow
def test_the_example_is_a_file_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Files(tmp_path)
    (tmp_path / "shop.py").write_text(
        "from rstreams import Stream\nnumbers = Stream.range(3)\ndef double(x): return 2 * x\n", encoding="utf-8"
    )
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    file = tmp_path / "node.toml"
    file.write_text(FILE, encoding="utf-8")
    assert main(["node", "--config", str(file), "--check"]) == 0, capsys.readouterr().err
    assert read_config(file).users is not None


def test_the_example_has_every_option_with_its_default() -> None:
    tables: Mapping[str, Mapping[str, PlainOption]] = {
        "node": {**options_of(Node.__init__, *ACCESS), "drain_s": PlainOption("drain_s", 10.0, (float,))},
        "listen.tls": options_of(TlsFiles),
        "limits": options_of(UserLimits),
        **{table: kind.options(Node) for table, kind in KINDS.items()},
    }
    for table, options in tables.items():
        assert defaults_in(table) == {name: told(option) for name, option in options.items()}, table
    listening = {name: told(option) for name, option in options_of(Node.listen, "place", "tls").items()}
    here = {name: default for name, default in defaults_in("listen").items() if name in listening}
    assert here == listening
    http = {name: told(option) for name, option in options_of(Node.listen_http, "place", "tls").items()}
    assert defaults_in("http") == http | {"place": DEFAULT_HTTP_PLACE}
    assert {field.name for field in fields(UserLimits)} <= set(re.findall(r"(\w+) = ", FILE))


WISHES = {
    "`durable`": Wish.DURABLE,
    "`priority`": Wish.PRIORITY,
    "`ttl`, `absolute-expiry-time`": Wish.LIFETIME,
    "`group-id`": Wish.GROUP,
    "delay": Wish.DELAY,
    "`x-cc`": Wish.COPIES,
}
"""What messages may ask for, by the heads of the guide's table."""


def made(kind: str, with_store: Node, without: Node) -> list[Address]:
    """Return addresses of a kind, by the guide's words for it, of which some may ignore more than others."""
    node = without if kind == "log without a store" else with_store
    match kind.split():
        case [*durable, "queue"]:
            return [node.queue(kind, durable=bool(durable))]
        case [*durable, "multicast"]:
            return [node.multicast(kind, durable=bool(durable))]
        case ["log", *_]:
            keys: list[dict[str, Any]] = [{}, {"partitions": 2}, {"partitions": 2, "key": lambda each: each.group_id}]
            return [node.log(f"{kind} {at}", retention_items=9, **options) for at, options in enumerate(keys)]
        case _:
            assert kind == "responding address"
            for concurrency in (16, 1):
                node.respond(f"{kind} {concurrency}", lambda _: None, concurrency=concurrency)
            return [node._addresses[f"{kind} {concurrency}"] for concurrency in (16, 1)]


async def test_the_table_of_what_messages_ask_for_is_what_the_kinds_do(tmp_path: Path) -> None:
    head, _, *rows = ADDRESSES.partition("## What messages may ask for")[2].partition("| address |")[2].splitlines()
    wishes = [WISHES[cell.strip()] for cell in head.strip("| ").split(" | ")]
    assert set(wishes) == {*Wish} - {Wish.TURN}
    kinds = [row.strip("| ").split(" | ") for row in rows[: rows.index("")]]
    assert len({kind for kind, *_ in kinds}) == 7
    async with Node(store=tmp_path / "s") as with_store, Node() as without:
        for kind, *cells in kinds:
            addresses = made(kind, with_store, without)
            for wish, cell in zip(wishes, cells, strict=True):
                ignored = {wish in address.ignores for address in addresses}
                if "named subscriptions" in cell:
                    assert ignored == {wish is Wish.LIFETIME}, (kind, wish)
                else:
                    assert ignored == {"no": {True}, "yes": {False}}.get(cell, {True, False}), (kind, wish)


def test_the_problems_are_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:  # noqa: ANN401
    monkeypatch.chdir(tmp_path)
    Path("node.toml").write_text(
        "[node]\n\nmax_links = 'many'\n\n[queues.orders]\ncapacity = 0\n\n[queues.bills]\ndead_letters = 'daed'\n",
        encoding="utf-8",
    )
    assert main(["node", "--config", "node.toml", "--check"]) == 2
    (shown,) = re.findall(r"```text\n(node\.toml:.*?)```", GUIDE, re.DOTALL)
    assert capsys.readouterr().err == shown

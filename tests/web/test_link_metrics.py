"""The numbers of single links for Prometheus: bounded names, no line twice, other tasks in between."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from rstreams import Node
from rstreams.net.management import LinkInfo
from rstreams.web.link_metrics import PART, LinkMetrics, LinkNumbers
from rstreams.web.metric_tables import LINK
from tests.net.over_tcp import connected
from tests.web.http_client import get


def numbers(number: int, *names: str) -> LinkNumbers:
    return LinkNumbers(number, lambda: names, 1.5, 2, 3, 0.0)


def lines(*links: LinkNumbers, metrics: LinkMetrics | None = None) -> list[str]:
    text = "".join((metrics or LinkMetrics()).write(iter(links)))
    return [line for line in text.splitlines() if line.startswith("rstreams_link_blocked")]


def test_each_number_is_one_that_a_link_tells() -> None:
    assert {each.field for each in LINK.metrics} < {each.name for each in fields(LinkInfo)}
    assert [each.field for each in LINK.metrics] == list(LinkNumbers._fields[2:])


def test_a_link_has_its_names_as_labels() -> None:
    (line,) = lines(numbers(7, "shop", 'or"ders', "ann", "3", "publish"))
    names = 'container="shop",address="or\\"ders",user="ann",link="3",direction="publish"'
    assert line == f"rstreams_link_blocked_seconds_total{{{names}}} 1.5"


def test_links_of_the_same_names_have_different_labels_which_stay() -> None:
    metrics = LinkMetrics()
    names = ("shop", "orders", "", "3", "publish")
    first = lines(numbers(1, *names), numbers(2, *names), metrics=metrics)
    assert [re.findall(r'link="([^"]*)"', line) for line in first] == [["3"], ["3 #2"]]
    assert lines(numbers(2, *names), numbers(1, *names), metrics=metrics) == first[::-1]
    assert lines(numbers(2, *names), metrics=metrics) == first[1:]


def test_names_that_peers_choose_are_cut_and_stay_different() -> None:
    found = lines(*(numbers(each, "c" * 5000, "a", "", "l" * 5000, "publish") for each in range(3)))
    assert len(set(found)) == 3
    assert max(map(len, found)) < 600


def test_there_is_a_pause_after_each_part() -> None:
    links = (numbers(each, "c", "a", "", str(each), "publish") for each in range(3 * PART))
    assert [bool(part) for part in LinkMetrics().write(links)] == [False] * 3 + [True] * len(LINK.metrics)


def test_without_links_there_is_nothing() -> None:
    assert "".join(LinkMetrics().write(iter(()))) == ""


async def test_the_page_has_them_and_the_other_one_has_none() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        http = await node.listen_http("127.0.0.1:0")
        async with connection.sender("work"):
            detailed = (await get(http, "/metrics/detailed")).body
            plain = (await get(http, "/metrics")).body
    container = node_container(detailed)
    assert 'rstreams_link_credit_messages{container="' in detailed
    assert f'container="{container}",address="work",user="",link="1",direction="publish"' in detailed
    assert "rstreams_link_" not in plain
    assert 'rstreams_address_publishers_blocked_seconds_total{address="work"} 0' in plain


def node_container(text: str) -> str:
    found = re.search(r'container="([^"]+)"', text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", ["/metrics/detailed"])
async def test_only_who_may_look_gets_it(path: str) -> None:
    async with Node(users={"ann": "a"}) as node:
        http = await node.listen_http("127.0.0.1:0")
        assert (await get(http, path)).status == 401

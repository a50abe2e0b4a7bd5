"""The guides name each option that there is, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rstreams_spark._elsewhere import SINK_ELSEWHERE, SOURCE_ELSEWHERE
from rstreams_spark._options import _SINK_NAMES, _SOURCE_NAMES

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
OWN = {*_SOURCE_NAMES, *_SINK_NAMES}
ROW = re.compile(r"^\| (.*?) \| (.*) \|$", re.MULTILINE)
OPTION = re.compile(r"`([a-zA-Z.*]+)`")
NOT_OPTIONS = {"where", "rstreams"}
COLUMN = re.compile(r"columns? `[a-z_]+`(?:(?:,| and) `[a-z_]+`)*")


def test_each_option_is_in_the_table_of_the_guide() -> None:
    options = (GUIDES / "spark-options.md").read_text(encoding="utf-8")
    described = {name for first, _ in ROW.findall(options) for name in OPTION.findall(first)}
    assert described == OWN


def connectors() -> list[tuple[str, str]]:
    text = (GUIDES / "spark-connectors.md").read_text(encoding="utf-8")
    return [row for row in ROW.findall(text) if row[0] != "---" and row[1] != "here"]


def test_each_option_that_takes_the_place_of_another_is_there() -> None:
    for theirs, ours in connectors():
        named = set(OPTION.findall(COLUMN.sub("", ours))) - NOT_OPTIONS
        assert named <= OWN, theirs
        assert named or "not offered" in ours or "not needed" in ours or COLUMN.search(ours), theirs


@pytest.mark.parametrize("connector", ["Kafka", "Event Hubs", "Pulsar", "RabbitMQ streams"])
def test_an_option_that_is_refused_with_a_hint_is_in_the_table_too(connector: str) -> None:
    """The hint of the error and the table say the same: the same options take the place."""
    text = (GUIDES / "spark-connectors.md").read_text(encoding="utf-8")
    rows = ROW.findall(text.partition(f"## {connector}\n")[2].partition("\n## ")[0])
    hints = SINK_ELSEWHERE | SOURCE_ELSEWHERE
    for theirs, ours in rows:
        for name in OPTION.findall(theirs):
            hint = hints.get(name.lower())
            named = {each for each in OWN if hint is not None and re.search(rf"\b{each}\b", hint)}
            if named and "not " not in ours:
                assert named & set(OPTION.findall(ours)), (name, hint, ours)

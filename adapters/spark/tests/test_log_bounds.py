"""Where a read of a log begins and ends, as the options say it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rstreams_spark._logs.bounds import read_offsets, read_times
from rstreams_spark._logs.options import LogModeOptions
from rstreams_spark._options import SourceOptions

from rstreams.errors import ConfigError

AT = datetime(2026, 11, 22, 8, tzinfo=UTC)
SOURCE = {"url": "amqp://h", "address": "events"}


def test_offsets() -> None:
    assert read_offsets("startingOffsets", "Earliest") == "earliest"
    assert read_offsets("startingOffsets", "latest") == "latest"
    text = '{"events": {"0": 23, "1": -1, "2": -2, "3": "latest"}, "a/b": {"0": 0}}'
    assert read_offsets("startingOffsets", text) == {
        "events/0": 23,
        "events/1": "latest",
        "events/2": "earliest",
        "events/3": "latest",
        "a/b/0": 0,
    }


@pytest.mark.parametrize(
    ("options", "names", "told"),
    [
        (LogModeOptions(), ["in"], "option address: there is no log 'in'"),
        (LogModeOptions(read_as="log"), ["in"], "option address: there is no log 'in' (option readAs='log')"),
        (LogModeOptions(addresses=("a", "b", "c")), ["a", "b"], "option addresses: there is no log 'a' or 'b'"),
        (LogModeOptions(pattern="a.*"), ["a.*"], "option addressPattern='a.*': there is no log with such a name"),
    ],
)
def test_the_option_that_finds_no_log_is_named(options: LogModeOptions, names: list[str], told: str) -> None:
    assert options.none_found(names) == told


def test_times() -> None:
    assert read_times("startingTimestamp", "1795334400000") == AT
    assert read_times("startingTimestamp", "2026-11-22T09:00:00+01:00") == AT
    assert read_times("startingTimestamp", "2026-11-22 08:00:00") == AT
    text = '{"events": {"0": 1795334400000, "1": "2026-11-22T08:00:00Z"}}'
    assert read_times("startingTimestamp", text) == {"events/0": AT, "events/1": AT}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "first",
        "{",
        "[]",
        "{}",
        "5",
        '{"events": 5}',
        '{"events": {}}',
        '{"events": {"x": 5}}',
        '{"events": {"00": 5}}',
    ]
    + [f'{{"events": {{"0": {value}}}}}' for value in ("-3", "true", "1.5", '"first"', "null", str(2**63))],
)
def test_offsets_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^option startingOffsets.*must be earliest, latest, or JSON with an offset"):
        read_offsets("startingOffsets", text)


@pytest.mark.parametrize(
    ("text", "twice"),
    [('{"events": {"0": 1, "1": 5, "0": 2}}', "0"), ('{"events": {"0": 1}, "a": {"0": 1}, "a": {"1": 2}}', "a")],
)
def test_json_that_has_a_place_twice_is_refused(text: str, twice: str) -> None:
    with pytest.raises(ConfigError, match=f"option endingOffsets=.*: '{twice}' is in it twice"):
        read_offsets("endingOffsets", text)


def test_a_wrong_option_is_told_once() -> None:
    with pytest.raises(ConfigError, match=r"^option startingOffsets='': must be earliest, latest, or JSON"):
        SourceOptions.parse(SOURCE | {"startingOffsets": ""})


@pytest.mark.parametrize("text", ["", "now", "-5", "1e9", '{"events": {"0": "now"}}', '{"events": {"0": true}}', "[5]"])
def test_times_that_cannot_be(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^option startingTimestamp.*must be milliseconds since 1970, a time such as"
    ):
        read_times("startingTimestamp", text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "soon"}, "option startingOffsets='soon': must be earliest, latest, or JSON"),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"}, "only one of them may be given"),
        ({"addresses": "a, b"}, "options address and addresses: only one of them may be given"),
        ({"address": "", "addresses": "a,,b"}, "each name must be there once"),
        ({"address": "", "addressPattern": "a("}, r"option addressPattern='a\(': must be a regular expression"),
        ({"readAs": "topic"}, "option readAs='topic': must be queue or log"),
        ({"minPartitions": "0"}, "option minPartitions='0': must be a whole number from 1 to 100000"),
        ({"maxRecordsPerPartition": "x"}, "option maxRecordsPerPartition='x': must be a whole number from 1"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss='no': must be true or false"),
    ],
)
def test_wrong_options(options: dict[str, str], text: str) -> None:
    given = {name: value for name, value in (SOURCE | options).items() if value}
    with pytest.raises(ConfigError, match=text):
        SourceOptions.parse(given)


def test_several_logs() -> None:
    assert SourceOptions.parse({"url": "amqp://h", "addresses": "a, b"}).log.addresses == ("a", "b")
    assert SourceOptions.parse({"url": "amqp://h", "addressPattern": "a.*"}).log.pattern == "a.*"


def test_a_log_has_no_default_limit_for_the_least_size_of_a_batch() -> None:
    given = SOURCE | {"minMessagesPerTrigger": "50000"}
    with pytest.raises(ConfigError, match="must be at most maxMessagesPerTrigger=10000"):
        SourceOptions.parse(given)
    assert SourceOptions.parse(given | {"readAs": "log"}).min_messages_per_trigger == 50_000

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark import _options
from rstreams_spark._elsewhere import SINK_ELSEWHERE, SOURCE_ELSEWHERE
from rstreams_spark._options import SinkOptions, SourceOptions, hide_credentials

from rstreams.errors import ConfigError

URL = "amqp://127.0.0.1:5672"
SOURCE = {"url": URL, "address": "temperature"}
SIZES = "a number of bytes, such as 65536, 512k, 64m or 1g, from 1 to 2147483647"


def test_defaults() -> None:
    options = SourceOptions.parse(SOURCE)
    assert options.peer.connect_url() == URL
    assert options.peer.connect_options() == {"sasl": None, "allow_plain_over_tcp": False}
    assert str(options.peer) == "127.0.0.1:5672"
    assert options.address == "temperature"
    assert options.max_messages_per_trigger == 10_000
    assert options.max_trigger_delay_s == 0.25
    assert options.num_partitions == 1
    assert options.spool_dir is None
    assert options.on_unparsable == "fail"
    assert options.max_message_bytes == 64 * 1024 * 1024
    assert options.checkpoint is None
    assert options.reconnect
    assert options.max_reconnect_s == 600


def test_names_arrive_in_lower_case_and_values_with_spaces() -> None:
    options = SourceOptions.parse(
        SOURCE
        | {
            "maxmessagespertrigger": " 7 ",
            "maxtriggerdelay": "1500ms",
            "numpartitions": "3",
            "spooldir": "/var/spool/x",
            "onunparsable": "Reject",
        }
    )
    assert options.max_messages_per_trigger == 7
    assert options.max_trigger_delay_s == 1.5
    assert options.num_partitions == 3
    assert options.spool_dir == "/var/spool/x"
    assert options.on_unparsable == "reject"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("maxMessagesPerTrigger", "0", "a whole number from 1 to 2147483647"),
        ("maxMessagesPerTrigger", "2147483648", "a whole number from 1 to 2147483647"),
        ("maxMessagesPerTrigger", "many", "a whole number from 1 to 2147483647"),
        ("maxMessagesPerTrigger", "٣", "a whole number from 1 to 2147483647"),
        ("numPartitions", "-1", "a whole number from 1 to 10000"),
        ("maxTriggerDelay", "5", "a whole number with a unit (ms, s, m or h), from 0ms to 1h"),
        ("maxTriggerDelay", "61m", "a whole number with a unit (ms, s, m or h), from 0ms to 1h"),
        ("onUnparsable", "drop", "fail or reject"),
        ("maxMessageSize", "0", SIZES),
        ("maxMessageSize", "3g", SIZES),
        ("maxMessageSize", "many", SIZES),
        ("reconnect", "perhaps", "true or false"),
        ("maxReconnectTime", "25h", "a whole number with a unit (ms, s, m or h), from 0ms to 24h"),
        ("sasl", "gssapi", "plain or external or anonymous"),
        ("address", " ", "the address to receive from, such as temperature"),
        ("spoolDir", "", "a folder that all executors see"),
        ("url", "http://host", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
        ("url", "amqp://", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
        ("url", "amqp://host:99999", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
        ("url", "amqp://host:0", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
        ("url", "amqp://host:x", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
        ("url", "amqp://host/queue", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
        ("url", "127.0.0.1:5672", "amqp://[user:password@]host[:port], or amqps:// for TLS"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(SOURCE | {name.lower(): value})
    assert str(caught.value) == f"option {name}={value!r}: must be {allowed}"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"address": "a"},
            "option url is missing: it must be amqp://[user:password@]host[:port], or amqps:// for TLS, such as ",
        ),
        ({"url": URL}, "option address is missing: it must be the address to receive from, such as temperature"),
        (SOURCE | {"username": "ada"}, "option password is missing: username and password must be given together"),
        (SOURCE | {"password": "pw"}, "option username is missing: username and password must be given together"),
        (
            SOURCE | {"xyzzy": "a"},
            "the rstreams source has no option xyzzy; it takes url, connectionString, connectionStringFile, ",
        ),
    ],
)
def test_what_is_missing_or_unknown_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(options)
    assert str(caught.value).startswith(text)


def test_the_sink_takes_its_own_options_and_what_spark_adds() -> None:
    options = SinkOptions.parse({"url": URL, "checkpointlocation": "/c"})
    assert options.address is None
    with pytest.raises(ConfigError, match=r"^the rstreams sink has no option maxtriggerdelay"):
        SinkOptions.parse({"url": URL, "maxtriggerdelay": "1s"})


BY_SPARK = {
    "start()": {},
    "start() of a named query": {"queryname": "q"},
    "a sink of a pipeline": {"queryname": "flow", "checkpointlocation": "file:/storage/_checkpoints/sink/flow/0"},
}


@pytest.mark.parametrize("way", BY_SPARK)
def test_what_spark_adds_to_the_options_of_a_sink_is_no_error(way: str) -> None:
    """As `test_ways_in_spark` sees Spark 4.3 do."""
    assert SinkOptions.parse({"url": URL, "address": "out"} | BY_SPARK[way]).address == "out"


def test_of_the_properties_of_a_table_only_its_options_count() -> None:
    of_table = {"owner": "ada", "provider": "rstreams", "comment": "c", "k": "v", "url": URL, "option.url": URL}
    assert SourceOptions.parse(of_table | {"option.Address": "in", "Address": "in"}).address == "in"
    with pytest.raises(ConfigError, match=r"^the rstreams source has no option adress\. Did you mean address"):
        SourceOptions.parse(of_table | {"option.address": "in", "option.adress": "in"})
    with pytest.raises(ConfigError, match=r"^the rstreams source has no option option\.url"):
        SourceOptions.parse(SOURCE | {"option.url": URL})


@pytest.mark.parametrize("options", [SourceOptions, SinkOptions])
def test_a_table_whose_options_spark_keeps_to_itself_is_told_what_to_do(
    options: type[SourceOptions | SinkOptions],
) -> None:
    with pytest.raises(ConfigError, match=r"option url is missing: .* no source that is written in Python: use CREATE"):
        options.parse({"queryname": "q"} if options is SinkOptions else {})


@pytest.mark.parametrize("options", [SourceOptions, SinkOptions])
def test_a_path_is_refused_with_a_hint(options: type[SourceOptions | SinkOptions]) -> None:
    with pytest.raises(ConfigError, match=r"has no option path: use address in place of a path$"):
        options.parse(SOURCE | {"path": "in"})


@pytest.mark.parametrize(
    "given_as",
    [
        {"url": "amqp://ada:p%2Fw%40x@broker:5673"},
        {"url": "amqp://broker:5673", "username": "ada", "password": "p/w@x"},
    ],
)
def test_credentials_come_in_the_url_or_beside_it_and_show_nowhere(given_as: dict[str, str]) -> None:
    options = SourceOptions.parse(given_as | {"address": "a"})
    assert options.peer.connect_url() == "amqp://ada:p%2Fw%40x@broker:5673"
    shown = repr(options) + str(options.peer)
    assert "ada" not in shown
    assert "p%2F" not in shown
    assert "p/w" not in shown
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own


def test_credentials_twice_are_refused_without_showing_them() -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(
            {"url": "amqp://ada:secret@broker", "address": "a", "username": "bob", "password": "hidden"}
        )
    assert str(caught.value) == ("options username and password: not allowed beside a url that has a user of its own")


@pytest.mark.parametrize(
    "url",
    [
        "http://ada:secret@h",
        "ada:secret@h",
        "amqp://ada:sec/ret@h",
        "amqp://ada:secret@h:x",
        "amqp://:secret@h",
        "x://secret@://h",
    ],
)
def test_a_malformed_url_is_shown_without_credentials(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse({"url": url, "address": "a"})
    assert "sec" not in str(caught.value)


@given(st.text())
def test_no_text_makes_a_url_fail_with_anything_but_a_config_error(text: str) -> None:
    try:
        SourceOptions.parse({"url": text, "address": "a"})
    except ConfigError as error:
        assert "option url" in str(error)  # noqa: PT017 - most texts are refused, a few are urls


def test_urls_in_errors_lose_their_credentials() -> None:
    assert hide_credentials("no peer at amqp://ada:pw@h:1, really") == "no peer at amqp://h:1, really"


def test_a_misspelt_option_is_told_with_the_nearest_name() -> None:
    with pytest.raises(
        ConfigError, match=r"has no option maxmessagepertrigger\. Did you mean maxMessagesPerTrigger\?$"
    ):
        SourceOptions.parse(SOURCE | {"maxmessagepertrigger": "7"})


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("512k", 512 * 1024), ("64MB", 64 * 1024**2), ("1g", 1024**3)])
def test_the_largest_message_is_a_size(text: str, size: int) -> None:
    assert SourceOptions.parse(SOURCE | {"maxmessagesize": text}).max_message_bytes == size


@pytest.mark.parametrize("where", ["/var/c 1", "file:///var/c%201", "file:/var/c%201"])
def test_the_checkpoint_is_a_folder_of_the_driver(where: str) -> None:
    assert SourceOptions.parse(SOURCE | {"checkpointlocation": where}).checkpoint == "/var/c 1"


@pytest.mark.parametrize("where", ["c", "s3a://bucket/c", "hdfs://h/c", "file://host/c"])
def test_a_checkpoint_elsewhere_is_refused_with_what_happens_without_it(where: str) -> None:
    with pytest.raises(
        ConfigError, match=r"option checkpointLocation=.* Leave it out for other file systems: a batch is"
    ):
        SourceOptions.parse(SOURCE | {"checkpointlocation": where})


def test_all_that_is_wrong_is_told_in_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(
            {"adress": "a", "maxmessagespertrigger": "0", "url": "http://ada:secret@h"}
            | {"startingoffsetsbytimestamp": "0"}
        )
    assert str(caught.value) == (
        "5 things are wrong with the options of the rstreams source: (1) the rstreams source has no option adress. Did "
        "you mean address?; (2) the rstreams source has no option startingoffsetsbytimestamp: use startingTimestamp, "
        "which takes JSON as well; (3) option url='http://h': must be "
        "amqp://[user:password@]host[:port], or amqps:// for TLS; (4) option address is missing: it must be the "
        "address to receive from, such as temperature; (5) option maxMessagesPerTrigger='0': must be a whole number "
        "from 1 to 2147483647"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kafka.bootstrap.servers", "use url"),
        ("maxOffsetsPerTrigger", "use maxMessagesPerTrigger"),
        ("eventhubs.prefetchCount", "use maxMessagesPerTrigger: the size of a batch is the credit of the link"),
        ("includeHeaders", "use columns: properties has the application properties, annotations the annotations"),
    ],
)
def test_the_names_of_other_connectors_are_known(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(SOURCE | {name.lower(): "x"})
    assert str(caught.value) == f"the rstreams source has no option {name.lower()}: {text}"


def test_every_hint_names_an_option_that_is_there() -> None:
    for hints, known in ((SOURCE_ELSEWHERE, _options._SOURCE_NAMES), (SINK_ELSEWHERE, _options._SINK_NAMES)):
        for name, hint in hints.items():
            used = re.findall(r"\buse (\w+)", hint)
            assert name not in {each.lower() for each in known}
            assert all(each in known or each in {"several", "column", "writeStream"} for each in used), hint


def test_several_urls_are_tried_in_turn() -> None:
    options = SourceOptions.parse({"url": "amqp://ada:p,w@h1, amqp://ada:p,w@[::1]:5673", "address": "a"})
    assert options.peer.connect_url() == ["amqp://ada:p%2Cw@h1:5672", "amqp://ada:p%2Cw@[::1]:5673"]
    assert str(options.peer) == "h1:5672,[::1]:5673"
    with pytest.raises(ConfigError, match="all urls must have the same scheme and the same user and password"):
        SourceOptions.parse({"url": "amqp://h1,amqps://h2", "address": "a"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"minmessagespertrigger": "5", "maxmessagespertrigger": "4"},
            "option minMessagesPerTrigger='5': must be at most",
        ),
        ({"bodyschema": "a int"}, "option bodySchema: allowed only with bodyFormat=json or avro, not with binary"),
        ({"bodyformat": "avro"}, "option bodySchema is missing: bodyFormat=avro needs the schema of the body, as JSON"),
        ({"mode": "FAILFAST"}, "option mode: allowed only with bodyFormat=string, json or avro; every body is a"),
        (
            {"bodyformat": "string", "mode": "failfast", "columnnameofcorruptrecord": "bad"},
            "option columnNameOfCorruptRecord: allowed only with mode=PERMISSIVE, not with FAILFAST",
        ),
        (
            {"bodyformat": "string", "columnnameofcorruptrecord": "body"},
            "option columnNameOfCorruptRecord='body': the source has a column of that name",
        ),
        ({"bodyformat": "yaml"}, "option bodyFormat='yaml': must be binary or string or json or avro"),
        (
            {"columns": "body,mesage_id"},
            "option columns: the rstreams source has no column 'mesage_id'; did you mean mess",
        ),
        ({"columns": "body, body"}, "option columns='body, body': a column is named twice"),
        (
            {"dialect": "eventhubs", "address": "h/ConsumerGroups/g/Partitions/0"},
            "option address='h/ConsumerGroups/g/Par",
        ),
        ({"spooldir": "/s", "waldir": "/w"}, "options spoolDir and walDir: only one of them may be given"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(SOURCE | options)
    assert str(caught.value).startswith(text)


def test_all_columns_are_a_star() -> None:
    columns = SourceOptions.parse(SOURCE | {"columns": "*"}).columns
    assert columns is not None
    assert {"body", "correlation_id", "annotations", "enqueued_time"} < set(columns)
    assert SourceOptions.parse(SOURCE | {"columns": "body , priority"}).columns == ("body", "priority")


def test_the_window_of_the_sink_bounds_what_a_link_has_sent() -> None:
    assert SinkOptions.parse({"url": URL, "window": "50"}).peer.connect_options()["max_unsettled"] == 50
    assert "max_unsettled" not in SinkOptions.parse({"url": URL}).peer.connect_options()


def test_dead_letters_do_not_come_back() -> None:
    with pytest.raises(ConfigError, match="option deadLetterAddress='a': must be another address"):
        SinkOptions.parse({"url": URL, "address": "a", "deadletteraddress": "a"})
    with pytest.raises(ConfigError, match="options deadLetterAddress and effectivelyOnce: only one"):
        SinkOptions.parse({"url": URL, "deadletteraddress": "a", "effectivelyonce": "true"})


def guide_options() -> dict[str, set[str]]:
    """Return the names of the options in the guide's tables, for the source and for the sink."""
    found: dict[str, set[str]] = {"source": set(), "sink": set()}
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "spark-options.md").read_text("utf-8")
    for title, table in re.findall(r"^## (.*)\n((?:(?!^## ).*\n)*)", guide, re.MULTILINE):
        for first in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
            for side, names in found.items():
                if side in title:
                    names.update(re.findall(r"`(\w+)`", first))
    return found


def test_the_guide_has_every_option_on_one_page() -> None:
    assert guide_options() == {"source": set(_options._SOURCE_NAMES), "sink": set(_options._SINK_NAMES)}

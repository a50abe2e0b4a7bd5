"""Marbles: the grammar, streams played from drawings, and drawings compared with streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rstreams.errors import ConfigError, DemandError
from rstreams.operators.map import map as map_
from rstreams.operators.merge import merge
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import MarbleError, ProbeSubscriber, VirtualScheduler, cold, expect_marbles, hot
from rstreams.testing.marbles import Moment, parse


def test_the_grammar() -> None:
    assert parse("-a- (b,|) -X") == [
        Moment(1, "next", "a"),
        Moment(3, "next", "b"),
        Moment(3, "complete"),
        Moment(9, "error"),
    ]
    assert parse("#") == [Moment(0, "error")]
    assert parse("^-!") == [Moment(0, "subscribe"), Moment(2, "cancel")]


@pytest.mark.parametrize("marbles", ["a?", "(a", "a)", "((a))", "(a-b)", "a,b"])
def test_what_is_no_marble(marbles: str) -> None:
    with pytest.raises(ConfigError, match="marbles"):
        parse(marbles)


def test_a_cold_stream_begins_with_each_subscriber() -> None:
    source = cold("-a-(b|)", {"a": 1})
    with VirtualScheduler():
        expect_marbles(source, "-1-(b|)")
        expect_marbles(source, "-x-(b|)", {"x": 1})
        expect_marbles(map_(source, str), "-x-(b|)", {"x": "1"})


def test_a_hot_stream_goes_on_without_its_subscribers() -> None:
    with VirtualScheduler() as scheduler:
        source = hot("a-^-b-c|")
        scheduler.advance(3)
        expect_marbles(source, "-c|")


def test_a_unit_of_another_length() -> None:
    with VirtualScheduler() as scheduler:
        expect_marbles(cold("--a|", unit_s=0.1), "--a|", unit_s=0.1)
        assert scheduler.now() == pytest.approx(0.6)


def test_errors() -> None:
    error = LookupError()
    expect_marbles(cold("-#"), "-X", error=MarbleError)
    expect_marbles(cold("-X", error=error), "-X", error=error)
    with pytest.raises(AssertionError, match="error LookupError"):
        expect_marbles(cold("-X"), "-X", error=error)


def test_demand_and_cancel() -> None:
    expect_marbles(range_(4), "0--(12)(3|)", requests="1--2---*")
    expect_marbles(cold("a-b-c|"), "a-b", cancel="---!")


def test_two_together() -> None:
    expect_marbles(merge(cold("-a---|"), cold("--b-|")), "-ab--|")


def test_an_item_that_nobody_asked_for() -> None:
    with pytest.raises(AssertionError, match=r"1\.1"):
        expect_marbles(cold("ab|"), "ab|", requests="1")


def test_a_wrong_demand() -> None:
    probe = ProbeSubscriber[str]()
    with VirtualScheduler() as scheduler:
        cold("a|").subscribe(probe)
        probe.request(0)
        probe.request(1)
        scheduler.advance(5)
    assert isinstance(probe.error, DemandError)
    assert probe.signals == ["on_subscribe", "on_error"]


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("1|", "complete was expected at 1; next 2 came at 0"),
        ("3|", "next 3 was expected at 0; next 1 came at 0"),
        ("-(12|)", "next 1 was expected at 1; next 1 came at 0"),
        ("(12)-3", "next 3 was expected at 5; complete None came at 0"),
        ("(12)", "nothing more was expected, and complete None came at 0"),
        ("(12X)", "error .* was expected at 0; complete"),
    ],
)
def test_a_difference_is_named_and_both_are_shown(expected: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message) as caught:
        expect_marbles(of(1, 2), expected)
    assert repr(expected) in str(caught.value)
    assert "0: next 1" in str(caught.value)


def test_what_should_come_later_and_does_not() -> None:
    with pytest.raises(AssertionError, match="at 2 next was expected, and nothing came"):
        expect_marbles(never(), "--1")


@pytest.mark.parametrize("function", [cold, hot, lambda drawing: expect_marbles(never(), drawing)])
@pytest.mark.parametrize(
    ("drawing", "text"),
    [
        ("a|b", "a stream ends once, and nothing follows its end"),
        ("a||", "a stream ends once"),
        ("aX|", "a stream ends once"),
        ("", "there is nothing in it; a stream without signals is drawn as '-'"),
        ("  ", "there is nothing in it"),
        ("-!", "'!' has no meaning here"),
    ],
)
def test_what_can_be_no_stream_is_refused(function: Callable[[str], object], drawing: str, text: str) -> None:
    with VirtualScheduler(), pytest.raises(ConfigError, match=text):
        function(drawing)


def test_the_subscription_is_drawn_in_hot_only() -> None:
    with pytest.raises(ConfigError, match=r"^expect_marbles\('-\^a'\): '\^' has no meaning here: '\^' is for hot"):
        expect_marbles(of(1), "-^a")


def test_hot_needs_virtual_time() -> None:
    with pytest.raises(ConfigError, match=r"^hot\('a'\) .*: call it inside `with VirtualScheduler\(\):`$"):
        hot("a")


def test_strings_in_the_wrong_place() -> None:
    with pytest.raises(ConfigError, match="hot"):
        cold("^a")
    with pytest.raises(ConfigError, match="requests"):
        expect_marbles(of(1), "1|", requests="a")

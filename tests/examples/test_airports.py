"""The demo: what it makes of the file, how it counts and judges, and what it shows."""

import io
import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from examples.airports import chart
from examples.airports.observations import STATIONS, Observation, read_file, weather_file
from examples.airports.progress import Batch, Progress
from examples.airports.publisher import as_message
from examples.airports.results import Result, StationDay, expected_results
from examples.airports.subscriber import as_result
from examples.airports.view import LineView, screen
from rstreams import Message
from rstreams.message import decode_message, encode_item
from tests.examples.runs import EXPECTED, FIRST, ROWS, SECOND, all_through, on_queue, on_subscriber

HEADER = "origin,year,month,day,hour,temp,time_hour\n"


# ------------------------------------------------------------------------------------------------------------ the input


def test_an_observation_has_its_hour_in_utc_and_perhaps_no_temperature(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    rows = ["EWR,2013,1,1,1,39.02,2013-01-01T06:00:00Z", "JFK,2013,1,1,1,1,2013-01-01T06:00:00Z"]
    path.write_text(HEADER + "\n".join([*rows, "EWR,2013,8,22,9,NA,2013-08-22T13:00:00Z"]))
    assert list(read_file(path, "EWR")) == [
        Observation("EWR", datetime(2013, 1, 1, 6, tzinfo=UTC), 39.02),
        Observation("EWR", datetime(2013, 8, 22, 13, tzinfo=UTC), None),
    ]


def test_the_file_is_read_as_its_rows_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    path.write_text(HEADER + "EWR,2013,1,1,1,39.02,2013-01-01T06:00:00Z\nEWR,2013,1,1,2,what,2013-01-01T07:00:00Z\n")
    assert next(read_file(path, "EWR")).temperature == 39.02


@pytest.mark.slow
def test_the_publishers_read_the_whole_file() -> None:
    rows = {station: list(read_file(weather_file(), station)) for station in STATIONS}
    assert {station: len(observations) for station, observations in rows.items()} == {
        "EWR": 8703,
        "JFK": 8706,
        "LGA": 8706,
    }
    [without] = [row for observations in rows.values() for row in observations if row.temperature is None]
    assert without == Observation("EWR", datetime(2013, 8, 22, 13, tzinfo=UTC), None)


def test_pandas_takes_the_day_from_the_local_date_and_the_maximum_of_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    rows = [
        "EWR,2013,1,1,22,-8.0,2013-01-02T03:00:00Z",
        "EWR,2013,1,1,23,-3.51,2013-01-02T04:00:00Z",
        "EWR,2013,1,2,0,NA,2013-01-02T05:00:00Z",
        "JFK,2013,11,3,1,50,2013-11-03T05:00:00Z",
        "JFK,2013,11,3,1,NA,2013-11-03T06:00:00Z",
    ]
    path.write_text(HEADER + "\n".join(rows))
    assert expected_results(path) == {
        StationDay("EWR", "2013-01-01"): Result(-3.51, 2, 0),
        StationDay("EWR", "2013-01-02"): Result(None, 1, 1),
        StationDay("JFK", "2013-11-03"): Result(50.0, 2, 1),
    }


def test_the_file_has_a_year_less_a_day_at_three_stations() -> None:
    expected = expected_results(weather_file())
    assert Counter(day.station for day in expected) == dict.fromkeys(STATIONS, 364)
    assert sum(result.observations for result in expected.values()) == 26115
    assert {day: result for day, result in expected.items() if result.without_temperature} == {
        StationDay("EWR", "2013-08-22"): Result(78.8, 21, 1)
    }


# ------------------------------------------------------------------------------------------------- what goes over links


@pytest.mark.slow
def test_each_observation_has_an_id_of_its_own_and_always_the_same() -> None:
    def ids() -> list[object]:
        return [as_message(row).id for station in STATIONS for row in read_file(weather_file(), station)]

    first = ids()
    assert len(set(first)) == len(first) == 26115
    assert first == ids()


def test_an_observation_arrives_as_json_with_its_time_zone() -> None:
    observation = Observation("EWR", datetime(2013, 7, 1, 19, tzinfo=UTC), 75.2)
    message = decode_message(encode_item(as_message(observation)))
    assert json.loads(message.body) == {"time": "2013-07-01T19:00:00+00:00", "temperature": 75.2}
    assert message.id == "EWR 2013-07-01T19:00:00+00:00"
    assert message.subject == "EWR"
    assert message.content_type == "application/json"
    assert message.properties == {"unit": "fahrenheit"}


def test_an_observation_without_a_temperature_is_sent_as_well() -> None:
    message = as_message(Observation("EWR", datetime(2013, 8, 22, 13, tzinfo=UTC), None))
    assert json.loads(message.body)["temperature"] is None


def test_a_result_is_about_the_station_and_day_that_are_its_id() -> None:
    result = Message(body='{"maximum":41.4,"observations":24,"without_temperature":1}', id="EWR 2013-01-01")
    assert as_result(result) == (FIRST, Result(41.4, 24, 1))
    result = Message(body='{"observations":1,"without_temperature":1}', id="EWR 2013-01-01")
    assert as_result(result) == (FIRST, Result(None, 1, 1))


# --------------------------------------------------------------------------------------------- counting and judging


def test_nothing_is_through_at_first() -> None:
    progress = Progress(EXPECTED)
    assert not progress.is_through
    assert not progress.is_right
    assert progress.verdict() == "0 of 2 daily maxima right, 0 of 48 observations accounted for"
    assert progress.so_far() == "of 48 observations 0 were published, 0 processed by Spark, 0 received in results"


def test_all_is_right_when_all_agree() -> None:
    progress = all_through()
    assert progress.is_through
    assert progress.is_right
    assert progress.wrong() == []
    assert progress.received_without_temperature == 1
    assert progress.verdict() == "2 of 2 daily maxima right, 48 of 48 observations accounted for"


def test_while_a_publisher_waits_for_outcomes_nothing_is_through() -> None:
    progress = all_through()
    del progress.accepted["JFK"]
    assert not progress.is_through
    assert progress.wrong() == ["accepted by the node, say the publishers: 24 of 48"]


def test_while_spark_has_not_settled_nothing_is_through() -> None:
    progress = all_through()
    on_queue(progress, accepted=40, unsettled=8)
    assert not progress.is_through
    assert progress.accounted == 40
    assert progress.wrong() == ["accepted by Spark, says the node: 40 of 48"]


def test_an_observation_that_spark_counted_twice_cannot_hide_a_lost_one() -> None:
    # Spark counts different ids: 48 messages with one of them twice are 47 observations.
    progress = all_through()
    on_subscriber(progress, SECOND, Result(-3.5, 23, 1))
    assert not progress.is_through
    assert progress.verdict() == "2 of 2 daily maxima right, 47 of 48 observations accounted for"


def test_an_observation_in_the_result_of_another_day_is_not_accounted_for() -> None:
    progress = all_through()
    on_subscriber(progress, FIRST, Result(41.4, 25, 0))
    on_subscriber(progress, SECOND, Result(-3.5, 23, 1))
    assert progress.is_through
    assert not progress.is_right
    assert progress.verdict() == "2 of 2 daily maxima right, 47 of 48 observations accounted for"


def test_an_observation_that_lost_its_temperature_is_not_accounted_for() -> None:
    progress = all_through()
    on_subscriber(progress, FIRST, Result(41.4, 24, 1))
    assert not progress.is_right
    assert progress.verdict() == "2 of 2 daily maxima right, 47 of 48 observations accounted for"


def test_a_count_beyond_the_file_is_as_wrong_as_one_below() -> None:
    progress = all_through()
    on_queue(progress, accepted=50)
    assert not progress.is_right
    assert progress.verdict() == "2 of 2 daily maxima right, 50 of 48 observations accounted for"


def test_the_last_result_of_a_day_counts() -> None:
    progress = Progress(EXPECTED)
    on_subscriber(progress, FIRST, Result(40.0, 10, 0))
    on_subscriber(progress, FIRST, Result(41.4, 24, 0))
    assert progress.results == {FIRST: Result(41.4, 24, 0)}
    assert progress.received == 24
    assert progress.right == 1


def test_a_wrong_maximum_is_through_and_not_right() -> None:
    progress = all_through()
    on_subscriber(progress, SECOND, Result(-3.4, 24, 1))
    counts = "of 24 observations, 1 without temperature"
    assert progress.is_through
    assert not progress.is_right
    assert progress.wrong() == [
        f"JFK 2013-01-02: maximum -3.5 {counts}, says pandas; maximum -3.4 {counts}, says Spark"
    ]
    assert progress.verdict() == "1 of 2 daily maxima right, 48 of 48 observations accounted for"


def test_a_day_that_is_not_in_the_file_is_not_right() -> None:
    progress = all_through()
    on_subscriber(progress, SECOND, Result(-3.5, 23, 1))
    on_subscriber(progress, StationDay("JFK", "2012-12-31"), Result(None, 1, 1))
    assert progress.is_through
    assert not progress.is_right
    assert progress.wrong()[0] == (
        "JFK 2012-12-31: no such day, says pandas; no maximum of 1 observations, 1 without temperature, says Spark"
    )


def test_of_many_wrong_days_the_first_are_listed_and_the_others_counted() -> None:
    progress = Progress({StationDay("EWR", f"2013-01-{day:02}"): Result(40.0, 24, 0) for day in range(1, 32)})
    lines = progress.wrong()[4:]
    assert [line[:14] for line in lines[:-1]] == [f"EWR 2013-01-{day:02}" for day in range(1, 6)]
    assert lines[-1] == "... and 26 more days"


def test_a_run_that_is_ended_early_tells_the_numbers_of_the_screen() -> None:
    progress = Progress(EXPECTED)
    progress.on_publisher({"station": "EWR", "sent": 24, "accepted": 24})
    progress.on_publisher({"station": "JFK", "sent": 20})
    on_queue(progress, enqueued=44, accepted=24, unsettled=12, ready=8)
    progress.on_job({"batch": 0, "rows": 36, "seconds": 2.5})
    on_subscriber(progress, FIRST, Result(41.4, 23, 0))
    told = "of 48 observations 44 were published, 36 processed by Spark, 23 received in results"
    assert progress.so_far() == told
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(screen(progress, 10.0, 80, 3))
    for shown in ("24 of 24 published", "20 of 24 published", "36 of 48 processed", "23 received in 1 of 2 results"):
        assert shown in captured.get()


# ------------------------------------------------------------------------------------------------------------- the view


def test_the_chart_fits_and_its_columns_are_as_high_as_the_days_are_warm() -> None:
    days = [f"2013-01-{day:02}" for day in range(1, 32)]
    maxima = {FIRST: 100.0, StationDay("EWR", "2013-01-02"): 55.0, SECOND: 55.0, StationDay("JFK", "2013-01-03"): None}
    lines = chart.as_text(maxima, days, 41, 4).plain.split("\n")
    assert len(lines) == 3 * 4 + 1
    assert {len(line) for line in lines} == {10 + 31}  # the axis, and a column a day
    assert [line[10:13] for line in lines[:4]] == ["█  ", "█  ", "██ ", "██ "]
    assert [line[10:13] for line in lines[4:8]] == ["   ", "   ", " █ ", " █ "]
    assert not any(line[10:].strip() for line in lines[8:12])
    assert [line[:10] for line in lines[:4]] == ["EWR 100°F ", " " * 10, " " * 10, "     10°F "]
    assert lines[12].split() == ["Jan"]


@pytest.mark.slow
def test_the_png_is_written_into_a_folder_that_was_not_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "chart.png"
    chart.write_png(path, {FIRST: 41.4, SECOND: None}, ROWS)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(("lines", "height"), [(3, 24), (5, 30)])
@pytest.mark.parametrize("fill", ["at first", "at last"])
def test_the_live_view_fits_a_small_terminal(fill: str, lines: int, height: int) -> None:
    progress = Progress(expected_results(weather_file()))
    if fill == "at last":
        for station, rows in progress.rows_of.items():
            progress.on_publisher({"station": station, "sent": rows, "accepted": rows})
        on_queue(progress, enqueued=26115, accepted=22115, ready=2000, unsettled=2000, credit=4000)
        progress.batches = [Batch(number, 2000, 110.5) for number in range(20)]
        progress.results = dict(progress.expected)
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(screen(progress, 100.0, 80, lines))
    shown = captured.get().rstrip("\n").split("\n")
    assert len(shown) < height
    assert max(len(line.rstrip()) for line in shown) <= 80


def test_without_a_terminal_each_step_of_spark_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(EXPECTED)
    view = LineView(progress)
    view.update()
    assert capsys.readouterr().out == ""
    progress.on_job({"phase": "starts Java"})
    view.update()
    view.update()
    assert capsys.readouterr().out == "Spark: starts Java; 0 observations published\n"
    progress.on_job({"batch": 0, "rows": 40, "seconds": 1.25})
    view.update()
    view.update()
    assert capsys.readouterr().out.startswith("micro-batch 0: 40 observations in 1.2 s; ")
    progress.on_publisher({"station": "JFK", "sent": 24, "accepted": 24})
    view.update()
    view.update()
    assert capsys.readouterr().out == "publisher JFK: 24 published, 24 accepted\n"


# --------------------------------------------------------------------------------------------------------- the tutorial


def test_the_tutorial_shows_the_code_word_for_word() -> None:
    root = Path(__file__).parents[2]
    sources = [path.read_text() for path in (root / "examples" / "airports").glob("*.py")]
    shown = re.findall(r"^```python\n(.*?)^```", (root / "docs" / "tutorial.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(shown) == 9
    for code in shown:
        assert any(code in source for source in sources), f"not in the demo's code:\n{code}"

"""`rstreams.logs`: events as text and as JSON, whatever a peer has put into them, and the choice of a format."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rstreams import logs
from rstreams._events.event import MOST_CHARACTERS, LogEvent
from rstreams.errors import ConfigError

NAMED = LogEvent("test.named", "rstreams.of_test_logs", logging.WARNING, "'%(name)s' is here: %(number).1f", "further")

HOSTILE = {
    "line breaks": "a\n2026-01-01 00:00:00 ERROR forged\r\nb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h",
    "escape sequences": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "nothing": "\x00",
    "half a pair": "\ud800 and \udfff",
    "from right to left": "\u202ecod.exe",
    "places": "%(name)s %s %d %% {0} {name}",
    "a megabyte": "x" * 1_000_000,
    "a megabyte of escapes": "\x1b" * 1_000_000,
    "a name": "bücher 'für' 日本",
}


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Let the lines of the logger of this file be written as they are to a file of ASCII or UTF-8."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    NAMED.logger.addHandler(handler)
    NAMED.logger.propagate = False
    yield stream
    NAMED.logger.removeHandler(handler)
    NAMED.logger.propagate = True


def use(log_format: logs.LogFormat | None) -> None:
    (handler,) = (each for each in NAMED.logger.handlers if type(each) is logging.StreamHandler)
    handler.setFormatter({"json": logs.JsonLines(), "text": logs.TextLines()}[log_format] if log_format else None)


@pytest.mark.parametrize("log_format", ["text", "json", None])
@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_is_one_line(name: str, log_format: logs.LogFormat | None, written: io.StringIO) -> None:
    use(log_format)
    NAMED.tell(name, name=name, number=1, further=ValueError(name))
    text = written.getvalue()
    assert text.count("\n") == 1
    assert text[:-1].isprintable()
    assert len(text) < 100 + 4 * (2 * 4 * MOST_CHARACTERS)
    assert text.encode("utf-8")
    if log_format == "json":
        told = json.loads(text)
        assert text.isascii()
        assert told["event"] == "test.named"
        assert told["number"] == 1
        assert told["name"] == told["further"]
        assert told["name"].isprintable()
        assert told["message"] == f"'{told['name']}' is here: 1.0"
    if name.isprintable() and len(name) < 100:
        assert name in (json.loads(text)["message"] if log_format == "json" else text)


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_traceback_forges_no_line(name: str, log_format: logs.LogFormat, written: io.StringIO) -> None:
    use(log_format)
    try:
        raise ValueError(name)  # noqa: TRY301 - it needs a traceback
    except ValueError as error:
        NAMED.tell(raised=error, name="n", number=1, further=None)
    first, *others = written.getvalue().split("\n")[:-1]
    assert len(written.getvalue()) < 10 * 20_000
    if log_format == "json":
        assert others == []
        assert "ValueError" in json.loads(first)["traceback"] or len(name) > 1000
    else:
        assert first.endswith(" WARNING 'n' is here: 1.0 [test.named]")
        assert others
        assert all(line.startswith("    ") for line in others)
        assert all(line.isprintable() for line in others)


def test_a_count_has_the_fields_of_the_last_line(written: io.StringIO) -> None:
    use("json")
    for number in range(1000):
        NAMED.tell("it", name="n", number=number, further="f", raised=ValueError("why\n"))
    from tests.log_lines import tell_counts

    tell_counts()
    first, count = map(json.loads, written.getvalue().splitlines())
    assert "more" not in first
    assert (first["number"], first["traceback"]) == (0, "ValueError: why\n")
    assert (count["number"], count["more"], count["event"], count["further"]) == (999, 999, "test.named", "f")
    assert count["message"] == "999 more of this kind about it, the last: 'n' is here: 999.0 (ValueError: why\\n)"
    assert "traceback" not in count


def test_a_record_of_json_has_the_time_in_utc() -> None:
    record = logging.LogRecord("others", logging.INFO, "", 0, "hello %s", ("you\n",), None)
    record.created = 1_764_324_845.0421
    assert json.loads(logs.JsonLines().format(record)) == {
        "time": "2025-11-28T10:14:05.042Z",
        "level": "INFO",
        "logger": "others",
        "message": "hello you\n",
    }
    assert logs.TextLines().format(record).endswith(" INFO hello you\n"), "records of others stay as they are"


def test_numbers_that_json_has_not_become_texts(written: io.StringIO) -> None:
    use("json")
    NAMED.tell(name=float("nan"), number=float(1), further=[1, "\n"])
    told = json.loads(written.getvalue(), parse_constant=pytest.fail)
    assert (told["name"], told["further"]) == ("nan", "[1, '\\n']")


@pytest.mark.parametrize("format_", ["xml", "", "JSON", None, 5, []])
def test_a_wrong_format_is_refused(format_: logs.LogFormat) -> None:
    with pytest.raises(ConfigError, match=r"log_format must be 'text' or 'json'"):
        logs.configure(format_)
    with pytest.raises(ConfigError, match=r"level must be 'debug', 'info', 'warning' or 'error'"):
        logs.configure(level=format_)  # type: ignore[arg-type] # the wrong value


TELLS = """\
import logging
import rstreams
from rstreams._events.table import QUEUE_FREE_AGAIN, QUEUE_FULL
QUEUE_FULL.tell("a", why="it is", address="a", stored=1)
QUEUE_FREE_AGAIN.tell("a", kind="queue", address="a", stored=1, seconds=1)
logging.getLogger("others").warning("not ours")
"""


def run(variable: str | None) -> list[str]:
    environment = {} if variable is None else {"RSTREAMS_LOG": variable}
    done = subprocess.run(
        [sys.executable, "-c", TELLS], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert not done.stdout
    return done.stderr.splitlines()


def test_the_environment_chooses_the_format() -> None:
    first, second, others = run("json")
    assert json.loads(first)["event"] == "queue.full"
    assert json.loads(second)["event"] == "queue.free_again"
    assert others == "not ours"
    first, second, others = run("text")
    assert first.endswith(" WARNING producers wait: it is [queue.full]")
    assert second.endswith(" INFO queue 'a' is less than half full again: 1 stored, after 1.0 s [queue.free_again]")
    assert run(None) == run("") == ["producers wait: it is", "not ours"], "Python's own way"


def test_a_wrong_environment_is_one_line() -> None:
    assert run("yaml") == [
        "RSTREAMS_LOG='yaml': RSTREAMS_LOG must be 'text' or 'json'",
        "producers wait: it is",
        "not ours",
    ]
    assert len(run("x\n" * 1000)) == 3


def test_configure_can_be_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("rstreams")
    before = list(logger.handlers), logger.level, logger.propagate
    logs.configure("json", level="error")
    logs.configure("text", level="warning")
    NAMED.tell(name="n", number=1, further=None)
    logs.give_up_configuration()
    assert (list(logger.handlers), logger.level, logger.propagate) == before
    assert capsys.readouterr().err.endswith(" WARNING 'n' is here: 1.0 [test.named]\n")

"""Each kind of finding: the smallest history that shows it, and the nearest one that does not."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

import rstreams.simulation.checker
from rstreams.simulation.checker import HistoryError, check, read
from rstreams.simulation.checker.__main__ import main
from rstreams.simulation.history import History, read_history
from tests.simulation.scripts import events

SENT = "p sent 1; p accepted 1"
GOT = f"{SENT}; c got 1"
TWO = "p sent 1; p sent 2; p accepted 1; p accepted 2"
READ = "c got 1 offset=0; c got 2 offset=1"
KEYS = "p sent 1 key=a; p accepted 1; p sent 2 key=a; p accepted 2"
COPIES: dict[str, Any] = {"copies": True}
LETTERS: dict[str, Any] = {"dead_letters": "d", "attempts": 2}
DEAD = "address address=d"
MOVED_ON = "moved 1 to=d; moved 1 to=e address=d; b got 1 address=e; b done 1 address=e; b got 1 address=e"

CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    # lost
    ("lost", SENT, GOT, {}),
    ("lost", SENT, "p sent 1; p unknown 1", {}),
    (  # the outcome was on its way when the node was killed
        "lost",
        f"killed n; started n; {SENT}",
        "p sent 1; killed n; started n; p accepted 1",
        {"part": "n", "durable": False},
    ),
    ("lost", SENT, "p sent 1; p refused 1", {}),
    ("lost", SENT, f"{SENT}; left ready=1", {}),
    ("lost", f"{TWO}; left ready=1", f"{TWO}; left ready=1 unsettled=1", {}),
    ("lost", f"{GOT}; left ready=0 unsettled=0", f"{GOT}; left unsettled=1", {}),
    ("lost", f"{GOT}; c failed 1", f"{GOT}; c failed 1; c got 1", {}),
    ("lost", f"{GOT}; c failed 1", f"{GOT}; c failed 1 final=true", {}),
    ("lost", f"{GOT}; c released 1", f"{GOT}; c released 1; d got 1", {}),
    ("lost", f"{GOT}; killed c", f"{GOT}; c done 1; killed c", {}),
    ("lost", f"{GOT}; killed c", f"{GOT}; killed b", {}),
    ("lost", f"{GOT}; killed c", f"{GOT}; killed c; d got 1", {}),
    ("lost", f"{GOT}; c unsubscribed", f"{GOT}; c unsubscribed; c done 1", {}),
    ("lost", f"{SENT}; dropped 1 reason=oldest", f"{SENT}; dropped 1 reason=newest", {"drops": ["newest"]}),
    ("lost", f"{TWO}; dropped count=1 reason=oldest", f"{TWO}; dropped count=2 reason=oldest", {"drops": ["oldest"]}),
    ("lost", "p sent 1 expires=9; p accepted 1", "p sent 1 expires=3; p accepted 1", {"drops": ["expired"]}),
    ("lost", f"c subscribed; {SENT}; c waiting 1", f"c subscribed; {GOT}", COPIES),
    ("lost", f"c subscribed; {SENT}", f"{SENT}; c subscribed", COPIES),
    ("lost", f"{SENT}; c subscribed from=first", f"{SENT}; c subscribed from=next", COPIES),
    ("lost", f"c subscribed; {SENT}; d got 1", f"c subscribed; {SENT}; c unsubscribed; d got 1", COPIES),
    (
        "lost",
        f"c subscribed subscription=s; {SENT}; c unsubscribed subscription=s",
        f"c subscribed subscription=s; {SENT}; c unsubscribed subscription=s ended=true",
        COPIES,
    ),
    ("lost", f"{KEYS}; c got 1", f"{KEYS}; c got 2", {"drops": ["superseded"]}),
    ("lost", f"{SENT}; c subscribed", f"{SENT}; fault; healed; c subscribed", {"promise": "at_most_once"}),
    ("lost", f"{SENT}; killed b; started b", f"{SENT}; killed n; started n", {"durable": False, "part": "n"}),
    (
        "lost",
        "killed n; started n; p sent 1; p accepted 1; c subscribed",
        "p sent 1; killed n; started n; p accepted 1; c subscribed",  # the outcome was on its way
        {"durable": False, "part": "n"},
    ),
    (
        "lost",
        f"killed n; started n; {GOT}; c released 1",
        f"{SENT}; killed n; started n; c got 1; c released 1",  # it waited in the consumer's buffer
        {"durable": False, "part": "n"},
    ),
    (
        "lost",
        f"{TWO}; {READ}; c subscribed from=0; c got 1 offset=0; p sent 3; p accepted 3; c got 3 offset=2",
        f"{TWO}; {READ}; c subscribed from=0; {READ}; p sent 3; p accepted 3; c got 3 offset=2",
        COPIES,
    ),
    (
        "lost",
        f"{DEAD}; {GOT}; c failed 1 final=true",
        f"{DEAD}; {GOT}; c failed 1 final=true; d got 1 address=d",
        LETTERS,
    ),
    (
        "lost",
        f"{DEAD}; {GOT}; c failed 1; c got 1; c failed 1",
        f"{DEAD}; {GOT}; c failed 1; c got 1; c failed 1; left address=d ready=1",
        LETTERS,
    ),
    ("lost", f"{DEAD}; {GOT}; c failed 1; moved 1 to=d", f"{DEAD}; {GOT}; moved 1 to=d; d got 1 address=d", LETTERS),
    # early
    ("early", f"{SENT}; killed n; started n", "p sent 1; killed n; started n; p unknown 1", {"part": "n"}),
    (
        "early",
        "p sent 1; c got 1; c released 1; d got 1; p accepted 1",
        "p sent 1; c got 1; c done 1; fault; healed; d got 1; p accepted 1",
        {"accepted": "processed"},
    ),
    ("early", f"{SENT}; c got 1; c done 1", "p sent 1; c got 1; c done 1; p accepted 1", {"accepted": "processed"}),
    (
        "early",
        "c subscribed; d subscribed; p sent 1; c got 1; d got 1; c done 1; p accepted 1; d done 1",
        "c subscribed; d subscribed; p sent 1; c got 1; d got 1; c done 1; d done 1; p accepted 1",
        {"copies": True, "accepted": "processed"},
    ),
    ("early", f"{SENT}; c got 1 offset=0; c committed 1", f"{SENT}; c got 1 offset=0; c done 1; c committed 1", {}),
    # doubled
    ("doubled", f"{GOT}; d got 1", f"{GOT}; c unsubscribed; d got 1", {}),
    ("doubled", f"{GOT}; c got 1", f"{GOT}; killed c; c got 1", {}),
    ("doubled", f"{GOT}; c done 1; c got 1", f"{GOT}; c done 1; fault; healed; c got 1", {}),
    ("doubled", f"fault; healed; {GOT}; c got 1", f"fault; {GOT}; healed; c got 1", {}),
    ("doubled", f"{GOT}; c done 1; killed b; c got 1", f"{GOT}; c done 1; killed n; c got 1; started n", {"part": "n"}),
    ("doubled", f"{GOT}; c failed 1 final=true; c got 1", f"{GOT}; c failed 1; c got 1", {}),
    (
        "doubled",
        f"{GOT}; c done 1; c confirmed 1; killed n; c got 1; started n",
        f"{GOT}; c done 1; killed n; c got 1; c confirmed 1; started n",
        {"part": "n"},
    ),
    (
        "doubled",
        "p sent 1; c got 1; c done 1; c got 1; p unknown 1",
        "p sent 1; p unknown 1; c got 1; c done 1; c got 1",
        {},
    ),
    ("doubled", f"{GOT}; c got 1", "p sent 1; p unknown 1; p sent 1; p accepted 1; c got 1; c got 1", {}),
    (
        "doubled",
        f"fault; {GOT}; c done 1; c got 1; healed",
        f"fault; {GOT}; c released 1; c got 1; healed",
        {"promise": "effectively_once"},
    ),
    ("doubled", f"fault; {GOT}; c released 1; c got 1; healed", f"fault; {GOT}; healed", {"promise": "at_most_once"}),
    (
        "doubled",
        f"c subscribed promise=at_least_once; {GOT}; c done 1; c confirmed 1; fault; c got 1; healed",
        f"c subscribed promise=at_least_once; {GOT}; c done 1; fault; c got 1; healed",
        {"promise": "effectively_once"},
    ),
    ("doubled", f"c subscribed; {GOT}; c got 1", f"c subscribed; {GOT}; c subscribed from=0; c got 1", COPIES),
    (
        "doubled",
        f"{SENT}; c got 1 offset=0; d got 1 offset=0",
        f"{SENT}; c got 1 offset=0; d resumed 0; d got 1 offset=0",
        {},
    ),
    (  # an item that may be stored twice may be moved on twice, too
        "doubled",
        f"{DEAD}; address address=e; {GOT}; {MOVED_ON}",
        f"{DEAD}; address address=e; p sent 1; fault; healed; p accepted 1; c got 1; {MOVED_ON}",
        {},
    ),
    (
        "doubled",
        f"{DEAD}; {GOT}; moved 1 to=d; moved 1 to=d; d got 1 address=d",
        f"{DEAD}; {GOT}; moved 1 to=d; d got 1 address=d",
        {},
    ),
    (
        "doubled",
        f"{SENT}; c got 1 offset=0; d got 1 offset=1",
        "p sent 1; p unknown 1; c got 1 offset=0; d got 1 offset=1",
        COPIES,
    ),
    (
        "doubled",
        f"{TWO}; {READ}; c subscribed from=1; c got 1 offset=0",
        f"{TWO}; {READ}; c subscribed from=1; c got 2 offset=1",
        COPIES,
    ),
    # unexpected
    ("unexpected", "c got 1", "p sent 1; c got 1; p accepted 1", {}),
    ("unexpected", "p sent 1; p refused 1; c got 1", "p sent 1; p unknown 1; c got 1", {}),
    ("unexpected", "p sent 1; p unsent 1; c got 1", "p sent 1; p unsent 1; p sent 1; p accepted 1; c got 1", {}),
    ("unexpected", f"{GOT}; d done 1", f"{GOT}; c done 1", {}),
    ("unexpected", f"{GOT}; killed c; c done 1", f"{GOT}; c done 1; killed c", {}),
    ("unexpected", f"{GOT}; q accepted 1", GOT, {}),
    ("unexpected", f"{GOT}; p sent 1; p accepted 1", "p sent 1; killed p; p sent 1; p accepted 1; c got 1", {}),
    ("unexpected", f"{DEAD}; {GOT}; d got 1 address=d", f"{DEAD}; {GOT}; c failed 1; d got 1 address=d", LETTERS),
    ("unexpected", f"{GOT}; c confirmed 2", f"{GOT}; c done 1; c confirmed 1", {}),
    ("unexpected", f"{GOT}; dropped 2 reason=oldest", f"{GOT}; dropped 1 reason=oldest", {"drops": ["oldest"]}),
    (
        "unexpected",
        f"{DEAD}; {GOT}; moved 1 to=d; left address=d ready=1; b done 1",
        f"{DEAD}; {GOT}; moved 1 to=d; left address=d ready=1; c done 1",
        {},
    ),
    ("unexpected", f"{DEAD}; {GOT}; moved 2 to=d", f"{DEAD}; {GOT}; moved 1 to=d; left address=d ready=1", {}),
    # reordered
    ("reordered", f"{TWO}; c got 2; c got 1", f"{TWO}; c got 1; c got 2", {}),
    ("reordered", f"{TWO}; c got 2; c got 1", f"{TWO}; c got 2; d got 1", {}),
    ("reordered", f"{TWO}; c got 2; c got 1", "p sent 1; r sent 2; p accepted 1; r accepted 2; c got 2; c got 1", {}),
    ("reordered", f"fault; healed; {TWO}; c got 2; c got 1", f"fault; {TWO}; healed; c got 2; c got 1", {}),
    (
        "reordered",
        f"{TWO}; c got 2; c unsubscribed; c got 1; c done 2",
        f"d subscribed; {TWO}; c got 2; d unsubscribed; c got 1",
        {},
    ),
    ("reordered", f"{TWO}; c got 2; c got 1", f"c subscribed; {TWO}; killed c; c got 2; c got 1", {}),
    (
        "reordered",
        f"c subscribed; killed c; {TWO}; c got 2; c got 1",
        f"c subscribed; killed c; {TWO}; c got 2; c got 1 attempt=2",
        {},
    ),
    (
        "reordered",
        f"c subscribed; fault; {TWO}; c got 2; c got 1; healed",
        f"c subscribed; fault; {TWO}; c got 1; c got 2; healed",
        COPIES,
    ),
    (
        "reordered",
        "p sent 1; p unknown 1; p sent 2; p accepted 2; c got 2; c got 1",
        "p sent 1; p unknown 1; p sent 2; p accepted 2; p sent 1; p accepted 1; c got 2; c got 1",
        {},
    ),
    (
        "reordered",
        "p sent 1; p accepted 1; r sent 2; r accepted 2; c got 2; c got 1",
        "p sent 1; r sent 2; p accepted 1; r accepted 2; c got 2; c got 1",
        {"order": "all"},
    ),
    (
        "reordered",
        f"{TWO}; c got 2 partition=0; c got 1 partition=0",
        f"{TWO}; c got 2 partition=0; c got 1 partition=1",
        {},
    ),
    # back
    ("back", f"fault; healed; {TWO}; {READ}; {READ}", f"{TWO}; {READ}; fault; healed; {READ}", {}),
    ("back", f"{TWO}; c got 1 offset=1; c got 2 offset=0", f"{TWO}; c got 1 offset=0; c got 2 offset=1", {}),
    (
        "back",
        f"{TWO}; c got 1 offset=0; c got 2 offset=0",
        f"{TWO}; c got 1 offset=0; c got 2 offset=0 partition=1",
        {},
    ),
    ("back", f"{GOT}; c done 1; g committed 5; g committed 4", f"{GOT}; c done 1; g committed 4; g committed 5", {}),
    ("back", f"{GOT}; c done 1; g committed 5; c resumed 4", f"{GOT}; c done 1; g committed 5; c resumed 5", {}),
    (
        "back",
        f"{SENT}; c got 1 offset=0; c done 1; c committed 1; killed c; c got 1 offset=0",
        f"{SENT}; c got 1 offset=0; c done 1; killed c; c got 1 offset=0; c done 1; c committed 1",
        {},
    ),
    (
        "back",
        f"{SENT}; c got 1 attempt=1; c failed 1; c confirmed 1; c got 1 attempt=1",
        f"{SENT}; c got 1 attempt=1; c failed 1; c got 1 attempt=1",
        {},
    ),
    (  # an item that may be stored twice: each copy has attempts of its own
        "back",
        f"{SENT}; c got 1; c failed 1; c confirmed 1; c got 1 attempt=1",
        "fault; p sent 1; healed; p accepted 1; c got 1; c failed 1; c confirmed 1; c got 1 attempt=1",
        {},
    ),
    (
        "bound",
        "p sent 1; p unknown 1; c got 1; c failed 1; c confirmed 1; c got 1 attempt=3",
        f"p sent 1; p unknown 1; {'c got 1; c failed 1; c confirmed 1; ' * 2}c got 1 attempt=2",
        {"attempts": 2},
    ),
    # twice
    ("twice", f"{GOT}; p accepted 1", GOT, {}),
    ("twice", f"{GOT}; p refused 1", "p sent 1; p refused 1; p sent 1; p accepted 1; c got 1", {}),
    ("twice", f"{GOT}; c done 1; c done 1", f"{GOT}; c done 1; fault; healed; c got 1; c done 1", {}),
    ("twice", f"{GOT}; c done 1; c failed 1 final=true", f"{GOT}; fault; healed; d got 1; d done 1; c done 1", {}),
    # bound
    ("bound", "level of=window value=3 most=2", "level of=window value=2 most=2", {}),
    ("bound", f"{SENT}; c got 1 attempt=3", f"{SENT}; c got 1 attempt=2", {"attempts": 2}),
    (
        "bound",
        f"{GOT}; c failed 1; c confirmed 1; c got 1",
        f"{GOT}; c failed 1; c got 1",
        {"attempts": 1},
    ),
    ("bound", "p sent 1 due=9; p accepted 1; c got 1", "p sent 1 due=3; p accepted 1; c got 1", {}),
    # stalled
    ("stalled", f"c waiting 1; {SENT}; left ready=1", f"{SENT}; left ready=1", {}),
    ("stalled", f"c waiting 1; {SENT}; left ready=1", f"c waiting 1; {SENT}; killed c; left ready=1", {}),
    ("stalled", f"c waiting 1; {SENT}; left ready=1", f"c waiting 1; {SENT}; c waiting 0; left ready=1", {}),
    ("stalled", "p sent 1", "p sent 1; killed p", {}),
    ("stalled", f"{SENT}; p sent 2; c waiting 1; left ready=1", f"{SENT}; p sent 2; left ready=1", {}),
    (
        "stalled",
        f"run patience=2; c waiting 1; {SENT}; b subscribed; c got 1",
        f"run patience=2; c waiting 1; {GOT}",
        {},
    ),
    (
        "stalled",
        f"run patience=2; c waiting 1; {SENT}; b subscribed; c got 1",
        f"run patience=2; c waiting 1; {SENT}; fault; healed; c got 1",
        {},
    ),
    # unfinished
    ("unfinished", "fault net", "fault net; healed net", {}),
    ("unfinished", "killed n", "killed n; started n", {"part": "n"}),
]


def kinds(script: str, promises: dict[str, Any]) -> set[str]:
    return {finding.kind for finding in check(events(f"{script}; end", **promises))}


@pytest.mark.parametrize(("kind", "wrong", "legal", "promises"), CASES)
def test_each_kind_is_found_and_its_legal_neighbour_is_not(
    kind: str, wrong: str, legal: str, promises: dict[str, Any]
) -> None:
    assert kinds(legal, promises) == set()
    assert kind in kinds(wrong, promises)


def test_a_text_names_item_address_who_and_when() -> None:
    (finding,) = check(events(f"{GOT}; d got 1; end"))
    assert finding.text == (
        "'d' got item 1 (sent by 'p' at 1, accepted) of 'q' again at 4; at 3 it came to 'c', who has it."
    )


def test_a_history_without_an_end_is_unfinished() -> None:
    assert [finding.kind for finding in check(events(SENT))] == ["unfinished"]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"at": 1, "event": "gone"}, "event 2 is 'gone', which is no event"),
        ({"at": 1, "event": "sent", "address": "q", "item": 1}, "event 2 (sent) has no 'by'"),
        ({"event": "sent"}, "event 2 (sent) has no 'at'"),
        ({"at": 1, "event": "left", "address": "x"}, "event 2 (left): address 'x' was not told before"),
        (
            {"at": 1, "event": "address", "address": "x", "promise": "all"},
            "event 2 (address): promise is 'all'; it must be",
        ),
        ({"at": 1, "event": "sent", "by": "p", "address": "q", "item": []}, "event 2 (sent): unhashable"),
        ([], "event 2 is no object"),
    ],
)
def test_an_event_that_is_not_as_it_must_be_is_named(event: Any, message: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises(HistoryError) as error:
        check([{"at": 0, "event": "address", "address": "q"}, event])
    assert str(error.value).startswith(message)


def test_the_command_prints_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(iter(range(9)).__next__)
    history.note("address", address="q")
    history.note("sent", by="p", address="q", item="a")
    history.note("end")
    history.write(tmp_path / "a.jsonl")
    assert main([str(tmp_path / "a.jsonl")]) == 1
    assert capsys.readouterr().out == (
        "stalled: 'p' sent item 'a' to 'q' at 1, and was told no outcome until 2, the end.\ncheck: 3 events, 1 failed\n"
    )


def test_files_of_several_processes_are_one_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in "ab"]
    clock = iter(range(9)).__next__
    with History(clock, to=Path(files[0])) as producer, History(clock, to=Path(files[1])) as consumer:
        producer.note("address", address="q")
        producer.note("sent", by="p", address="q", item=1)
        consumer.note("got", by="c", address="q", item=1)
        producer.note("accepted", by="p", address="q", item=1)
        consumer.note("done", by="c", address="q", item=1)
        producer.note("end")
        assert producer.events == consumer.events == []
    assert main(files) == 0
    assert capsys.readouterr().out == "check: 6 events, 0 failed\n"
    assert [event["event"] for event in read_history(Path(files[1]))] == ["got", "done"]
    assert [event["at"] for event in read(*map(Path, files))] == list(range(6))


@pytest.mark.parametrize("line", ["no json", "[]", '{"event": "end"}', '{"at": "now"}'])
def test_a_line_that_is_no_event_is_named(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "h.jsonl"
    file.write_text(f'{{"at": 0, "event": "run"}}\n{line}\n')
    assert main([str(file)]) == 1
    assert capsys.readouterr().err == f"check: {file}:2 is no event, an object of JSON with a number `at`: {line}\n"


def test_a_file_of_bytes_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "h.jsonl"
    file.write_bytes(b"\xff\xfe")
    assert main([str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"check: {file}:1 is no event")


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"check: {tmp_path / 'none'} cannot be read: No such file or directory\n"


def test_the_command_without_files_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: python -m rstreams.simulation.checker FILE...")


def test_the_checker_imports_nothing_else_of_rstreams() -> None:
    package = rstreams.simulation.checker
    for file in Path(package.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name.startswith(package.__name__) or name.partition(".")[0] in sys.stdlib_module_names, file


def test_who_lost_an_item_without_knowing_and_who_has_it_now_may_both_be_done_with_it() -> None:
    script = (
        "a subscribed; b subscribed; p sent 1; a got 1; fault; healed; b got 1; a done 1; b done 1; p accepted 1; end"
    )
    assert check(events(f"{script}; end")) == []


def test_what_one_who_lost_an_item_without_knowing_tells_last_does_not_change_what_the_next_one_told() -> None:
    script = (
        "a subscribed; b subscribed; p sent 1; p accepted 1; a got 1; fault; healed; b got 1; b failed 1; a done 1; "
        "b confirmed 1; b got 1 attempt=2; b done 1; end"
    )
    assert check(events(script)) == []


def test_an_offset_is_committed_though_one_who_had_an_item_from_before_a_fault_gives_it_back() -> None:
    again = "fault; healed; b got 1 offset=0; b released 1; a committed 1"
    script = f"a subscribed; b subscribed; p sent 1; p accepted 1; a got 1 offset=0; a {{}} 1; {again}; end"
    assert "early" not in [each.kind for each in check(events(script.format("done")))]
    assert "early" in [each.kind for each in check(events(script.format("released")))]


def test_one_who_began_behind_the_first_copy_of_an_item_may_get_the_second_copy_late() -> None:
    script = (
        "p sent 1; p sent 2; p accepted 1; p accepted 2; c subscribed from=1; c got 2 offset=1; c got 1 offset=2; end"
    )
    assert check(events(script.replace("p sent 2;", "p sent 2; fault; healed;"), copies=True)) == []
    assert "reordered" in [each.kind for each in check(events(script, copies=True))]


def test_a_subscription_that_began_behind_the_first_copy_of_an_item_may_get_the_second_copy_late() -> None:
    script = "p sent 1; c subscribed; p sent 2; c got 2; c done 2; {}p accepted 1; c got 1; c done 1; p accepted 2; end"
    assert check(events(script.format("killed node; started node; "), copies=True, part="node")) == []
    assert [each.kind for each in check(events(script.format(""), copies=True, part="node"))] == ["reordered"]


def test_the_second_copy_of_an_item_may_come_late_if_the_first_one_may_have_been_dropped() -> None:
    script = "c subscribed; p sent 1; p sent 2; c got 2; c done 2; killed node; started node; "
    script += "p accepted 1; c got 1; c done 1; p accepted 2; end"
    assert check(events(script, copies=True, part="node", drops=["oldest"])) == []
    assert [each.kind for each in check(events(script, copies=True, part="node"))] == ["reordered"]


def test_what_was_done_is_not_lost_if_one_who_had_it_from_before_a_fault_gives_it_back() -> None:
    script = "a subscribed; b subscribed; p sent 1; p accepted 1; fault; b got 1; b {}; a got 1; a released 1; healed"
    assert check(events(f"{script.format('done 1')}; end")) == []
    assert [each.kind for each in check(events(f"{script.format('released 1')}; end"))] == ["lost"]


def test_a_reader_that_begins_again_with_what_comes_next_is_not_owed_what_came_before() -> None:
    script = "c subscribed from=next; killed c; p sent 1; p accepted 1; started c"
    again = "p sent 2; p accepted 2; c got 2; c done 2; end"
    assert check(events(f"{script}; c subscribed from=next; {again}", copies=True)) == []
    assert [each.kind for each in check(events(f"{script}; c subscribed from=first; {again}", copies=True))] == ["lost"]

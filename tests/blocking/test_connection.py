"""The blocking facade, against a node in a thread of its own."""

from __future__ import annotations

import inspect
import os
import signal
import ssl
import subprocess
import sys
import threading

import pytest

import rstreams
import rstreams.blocking
from rstreams import PublishResult, Stream
from rstreams.blocking import BlockingStream
from rstreams.errors import ConfigError, ConnectFailed, LinkDetached, RStreamsError
from rstreams.runtime.portal import start_portal
from rstreams.testing import ProbeSubscriber
from tests.blocking.conftest import Fixture
from tests.net.certificates import alice, client_context, node_context


def test_options_of_the_connection_go_through() -> None:
    with (
        start_portal("node") as portal,
        portal.enter(rstreams.Node(certificate_users=lambda shown: shown.name)) as node,
    ):
        node.serve("numbers", Stream.range(3))

        async def listen() -> str:
            listener = await node.listen("127.0.0.1:0", tls=node_context(clients=ssl.CERT_REQUIRED))
            return listener.url

        url = portal.run(listen)
        with rstreams.blocking.connect(url, tls=client_context(alice()), sasl="EXTERNAL") as connection:
            assert connection.stream("numbers").to_list() == [0, 1, 2]
        with pytest.raises(ConnectFailed, match="no authority that is trusted here"), rstreams.blocking.connect(url):
            pass


def test_a_stream_is_iterated(here: Fixture) -> None:
    numbers = here.connection.stream("numbers")
    assert list(numbers.map(lambda n: n + 1).filter(lambda n: n % 2).take(3)) == [1, 3, 5]
    assert sum(numbers) == sum(range(10_000))


def test_the_terminals(here: Fixture) -> None:
    numbers = here.connection.stream("numbers")
    taken: list[int] = []
    numbers.take(4).for_each(taken.append)
    assert taken == numbers.take(4).to_list() == [0, 1, 2, 3]
    assert numbers.first_or_none() == 0
    assert numbers.take(0).first_or_none() is None


def test_every_operator_does_what_that_of_stream_does(here: Fixture) -> None:
    async def twice(n: int) -> int:
        return 2 * n

    heard: list[object] = []
    numbers = here.connection.stream("numbers").take(4)
    assert numbers.map_async(twice).to_list() == [0, 2, 4, 6]
    assert numbers.skip(1).to_list() == [1, 2, 3]
    assert numbers.scan(lambda total, n: total + n, 0).to_list() == [0, 1, 3, 6]
    assert numbers.reduce(lambda total, n: total + n, 0).to_list() == [6]
    assert numbers.buffer_count(3).to_list() == [[0, 1, 2], [3]]
    assert numbers.concat(Stream.of(9)).to_list() == [0, 1, 2, 3, 9]
    assert sorted(numbers.merge(Stream.of(9)).to_list()) == [0, 1, 2, 3, 9]
    assert numbers.flat_map(lambda n: Stream.of(n, n)).to_list() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert numbers.do_on_next(heard.append).do_on_complete(lambda: heard.append("end")).to_list() == [0, 1, 2, 3]
    assert heard == [0, 1, 2, 3, "end"]
    assert numbers.through(Stream.take, 2).to_list() == [0, 1]
    broken = here.connection.stream("broken").do_on_error(lambda error: heard.append(type(error)))
    assert broken.on_error_resume(lambda _: Stream.of(9)).to_list() == [0, 1, 2, 9]
    assert heard[-1] is not None


def test_it_has_the_operators_of_stream() -> None:
    """What Stream gains, the facade gains, with the same parameters."""
    only_here = {"open", "to_list", "first_or_none", "for_each", "publish", "replay", "partition"}
    theirs = {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(Stream)
        if inspect.isfunction(vars(Stream).get(name)) and not name.startswith("_") and name not in only_here
    }
    ours = {name: inspect.signature(getattr(BlockingStream, name)) for name in theirs}
    assert {name: list(signature.parameters.values())[1:] for name, signature in ours.items()} == {
        name: list(signature.parameters.values())[1:] for name, signature in theirs.items()
    }


def test_whole_messages(here: Fixture) -> None:
    assert here.publish(rstreams.Message("wash", id="1", properties={"urgent": True})) == 1
    [message] = here.connection.messages("jobs").take(1).to_list()
    assert (message.body, message.id, message.properties) == ("wash", "1", {"urgent": True})


def test_a_loop_that_breaks_accepts_what_it_had_and_releases_the_rest(here: Fixture) -> None:
    here.publish(*"abcd")
    with here.connection.stream("jobs").open() as jobs:
        for job in jobs:
            if job == "b":
                break
    now = here.jobs_once(lambda now: now.ready == 2)
    assert (now.accepted, now.modified, now.unsettled) == (2, 0, 0)


def test_a_loop_that_raises_gives_back_the_item_it_had_as_failed(here: Fixture) -> None:
    here.publish(*"abcd")
    with pytest.raises(LookupError), here.connection.stream("jobs").open() as jobs:
        for job in jobs:
            if job == "b":
                raise LookupError
    now = here.jobs_once(lambda now: now.ready == 3)
    assert (now.accepted, now.modified, now.unsettled) == (1, 1, 0)


def test_a_bare_loop_that_is_left_early_gives_back_the_item_it_had(here: Fixture) -> None:
    here.publish(*"abcd")
    for job in here.connection.stream("jobs"):
        if job == "b":
            break
    now = here.jobs_once(lambda now: now.ready == 3)
    assert (now.accepted, now.modified, now.unsettled) == (1, 1, 0)


def test_an_item_is_accepted_while_the_loop_waits_for_the_next(here: Fixture) -> None:
    here.publish("a")
    with here.connection.stream("jobs").open(window=1) as jobs:
        assert next(jobs) == "a"
        here.publish("b")
        assert next(jobs) == "b"
        assert here.jobs_once(lambda now: now.accepted == 1).unsettled == 1


def test_an_item_is_accepted_while_the_loop_rests_at_the_next(here: Fixture) -> None:
    here.publish(*"abcd")
    with here.connection.stream("jobs").open() as jobs:
        for rests_at in (2, 3):
            while next(jobs) != "abcd"[rests_at]:
                pass
            assert here.jobs_once(lambda now: now.accepted == rests_at).unsettled == 4 - rests_at  # noqa: B023


def test_the_window_bounds_what_is_taken_ahead(here: Fixture) -> None:
    here.publish(*range(20))
    with here.connection.stream("jobs").open(window=5) as jobs:
        assert next(jobs) == 0
        assert here.jobs_once(lambda now: now.unsettled == 5).ready == 15


def test_errors_come_out_of_the_loop_after_the_items(here: Fixture) -> None:
    seen = []
    with pytest.raises(LinkDetached, match="the publisher failed"):
        for number in here.connection.stream("broken"):
            seen.append(number)  # noqa: PERF402 - one by one, until it fails
    assert seen == [0, 1, 2]
    with pytest.raises(LinkDetached, match="no address 'nowhere' here"):
        here.connection.stream("nowhere").to_list()


def test_items_that_came_with_the_end_are_given_out_before_it(here: Fixture) -> None:
    def fail_at_5(number: int) -> int:
        if number == 5:
            raise LookupError(number)
        return number

    got: list[int] = []
    with pytest.raises(LookupError):
        for number in here.connection.stream("numbers").map(fail_at_5):
            got.append(number)  # noqa: PERF402 - what came before the error is kept
    assert got == [0, 1, 2, 3, 4]
    assert list(here.connection.stream("numbers").take(6)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_several_threads_share_a_connection(here: Fixture) -> None:
    sums: list[int] = []
    numbers = here.connection.stream("numbers")
    threads = [threading.Thread(target=lambda: sums.append(sum(numbers))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [sum(range(10_000))] * 4


def test_a_blocking_stream_can_be_published(here: Fixture) -> None:
    assert here.connection.publish("jobs", here.connection.stream("numbers").take(5)).accepted == 5


def test_what_was_published_is_told(here: Fixture) -> None:
    results: list[PublishResult] = []
    assert here.connection.publish("jobs", Stream.range(3), on_end=results.append) == PublishResult(3)
    with pytest.raises(ValueError, match="no more"):
        here.connection.publish(
            "jobs", Stream.range(3).concat(Stream.fail(ValueError("no more"))), on_end=results.append
        )
    assert results == [PublishResult(3), PublishResult(3, complete=False)]


def test_a_stream_cannot_cross_from_one_connection_s_thread_to_another_s(here: Fixture) -> None:
    here.publish(1, 2, 3)
    with rstreams.blocking.connect(here.url) as other:
        with pytest.raises(ConfigError, match=r"stream\('jobs'\) of the connection to .* another thread"):
            other.publish("jobs", here.connection.stream("jobs"))
        with pytest.raises(ConfigError, match="another thread"):
            other.stream("numbers").merge(here.connection.stream("jobs")).to_list()
        probe = ProbeSubscriber[object](1)
        here.connection.stream("numbers").subscribe(probe)
        assert isinstance(probe.error, ConfigError)
        assert other.stream("jobs").take(3).to_list() == [1, 2, 3]
    assert here.connection.stream("numbers").take(2).to_list() == [0, 1]


def test_a_stream_that_fails_with_stop_iteration_does_not_look_complete(here: Fixture) -> None:
    stream = here.connection.stream("numbers").map(lambda _: next(iter(())))
    with pytest.raises(RuntimeError, match="StopIteration"), stream.open() as items:
        for _ in items:
            pass


def test_a_block_that_is_left_before_its_stream_is_attached_leaves_nobody_behind(here: Fixture) -> None:
    for _ in range(20):
        with here.connection.stream("jobs").open():
            pass
    here.publish(1)
    assert here.connection.stream("jobs").take(1).to_list() == [1], "no other consumer has it"
    here.jobs_once(lambda now: now.consumers == 0)


@pytest.mark.parametrize("wait", ["to_list", "publish", "for_each", "open"])
def test_an_interrupt_ends_what_the_thread_waits_for(here: Fixture, wait: str) -> None:
    def never_ends() -> None:
        jobs = here.connection.stream("jobs")
        match wait:
            case "to_list":
                jobs.to_list()
            case "publish":
                here.connection.publish("jobs", Stream.never())
            case "for_each":
                jobs.for_each(print)
            case _:
                with jobs.open() as items:
                    next(items)

    def interrupt() -> None:
        here.jobs_once(lambda now: now.consumers + now.producers == 1)
        signal.pthread_kill(waiting, signal.SIGINT)

    waiting = threading.get_ident()
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        never_ends()
    interrupter.join()
    here.jobs_once(lambda now: now.consumers + now.producers == 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_is_told_to_open_its_own(here: Fixture) -> None:
    script = """
import os, sys, rstreams.blocking
from rstreams.errors import RStreamsError

with rstreams.blocking.connect(sys.argv[1]) as connection:
    if os.fork():
        print(os.waitstatus_to_exitcode(os.wait()[1]), connection.stream("numbers").first_or_none())
    else:
        try:
            connection.stream("numbers").first_or_none()
        except RStreamsError as error:
            sys.exit(3 if "forked" in str(error) else 4)
"""
    # Python 3.12 and later warn of a fork beside threads, which is what this test is about.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, here.url]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (ended.stdout, ended.stderr) == ("3 0\n", "")


def test_what_cannot_be(here: Fixture) -> None:
    with pytest.raises(ConfigError, match="window=0"):
        here.connection.stream("numbers").open(0)
    with pytest.raises(ConfigError, match="settlement='twice'"):
        here.connection.stream("numbers", settlement="twice")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue,reportArgumentType]
    with (
        pytest.raises(ConnectFailed, match=r"cannot connect to 127\.0\.0\.1:1: "),
        rstreams.blocking.connect("amqp://127.0.0.1:1"),
    ):
        pass


def test_a_connection_that_is_closed(here: Fixture) -> None:
    with rstreams.blocking.connect(here.url) as connection:
        numbers = connection.stream("numbers")
    with pytest.raises(RStreamsError, match="closed"):
        numbers.to_list()
    failed: list[BaseException] = []

    def from_a_new_thread() -> None:  # which may have the ident of the one that has ended
        try:
            numbers.to_list()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=from_a_new_thread)
    thread.start()
    thread.join()
    assert [type(error) for error in failed] == [RStreamsError]
    assert "127.0.0.1" in repr(connection)


def test_a_stream_whose_block_has_ended_gives_no_items(here: Fixture) -> None:
    with here.connection.stream("numbers").open() as numbers:
        next(numbers)
    with pytest.raises(RStreamsError, match="this stream has been closed"):
        next(numbers)


@pytest.mark.parametrize(("window", "ahead"), [({}, 512), ({"window": 256}, 128)])
def test_as_many_items_are_asked_for_ahead_as_the_link_has_room_for(
    here: Fixture, window: dict[str, int], ahead: int
) -> None:
    with here.connection.stream("numbers").open(**window) as items:
        assert [next(items) for _ in range(5_000)] == list(range(5_000))
        here.jobs_once(lambda _: len(items._kept) >= ahead)  # which lets the connection's thread go on
        assert len(items._kept) <= 2 * ahead
        assert list(items) == list(range(5_000, 10_000))


@pytest.mark.parametrize("share", ["share", "cache"])
@pytest.mark.parametrize("source", ["delay", "map_blocking"])
def test_threads_share_a_run_that_the_first_of_them_leaves(here: Fixture, source: str, share: str) -> None:
    numbers = here.connection.stream("numbers")
    made = numbers.delay(0.001) if source == "delay" else numbers.map_blocking(lambda n: n)
    shared = made.share() if share == "share" else made.cache()
    begun, left = threading.Event(), threading.Event()

    def begin_and_leave() -> None:
        with shared.open(window=2) as items:
            next(items)
            begun.set()
            left.wait()

    first = threading.Thread(target=begin_and_leave)
    first.start()
    begun.wait()
    with shared.open(window=2) as items:
        seen = [next(items)]
        left.set()
        first.join()
        seen += [next(items) for _ in range(9)]
    assert seen == list(range(seen[0], seen[0] + 10))


def test_who_waits_for_whom_is_told_in_a_thread(here: Fixture) -> None:
    here.publish(1)
    numbers = here.connection.stream("jobs")
    assert here.connection.explain_across(numbers).state == "it has no run"
    with numbers.open(window=1) as items:
        next(items)
        tree = here.connection.explain_across(within_s=2)
        assert tree.culprit is not None
        assert tree.culprit.kind == "slow_handler", str(tree)
    with here.connection.management() as management:
        assert "queue 'jobs'" in str(management.explain("jobs", within_s=2))

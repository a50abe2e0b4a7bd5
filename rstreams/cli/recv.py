"""`rstreams recv`: look at the messages of an address, or take them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rstreams.cli.client import Command, run_client
from rstreams.cli.console import add_output_options
from rstreams.cli.exit_codes import CommandEnded, ExitCode, mistake
from rstreams.cli.parser import Parser
from rstreams.cli.peer import add_peer_options

if TYPE_CHECKING:
    from rstreams import Connection, Stream
    from rstreams.cli.intake import MessageIntake, Settle
    from rstreams.cli.printing import Printer

_EXAMPLES: Final = """\
examples:
  rstreams recv orders                             look at the messages of a queue, and go on with later ones
  rstreams recv orders -e                          look at what is there now
  rstreams recv orders --take -n 5                 take five messages
  rstreams recv orders --take --step               take a message at each Enter
  rstreams recv orders --json | jq .properties
  rstreams recv events --from @-1h --format '%o %k %s'
  rstreams recv events --group billing --from first
  rstreams recv orders --json -e | rstreams send copies --jsonl
  rstreams recv orders --take -e --out messages

formats:
  %s body  %k key  %p{NAME} property  %a{NAME} annotation  %i id  %u subject  %o offset  %t creation time
  %c content type  %d failed attempts  %r reply-to  %C correlation id  %g group  %S size  %n number  %j all as JSON
"""

_VERBS: Final = {"accept": "accepted", "release": "given back", "reject": "rejected"}
_QUIET_S: Final = 0.2
_LOOK_EVERY_S: Final = 0.05
_ONE_BY_ONE: Final = 1000
"""How many messages that are taken out of a queue are written one by one: `head` then gets no more than it shows."""


def add_options(parser: Parser) -> None:
    """Describe the command."""
    parser.description = (
        "Print the messages of an address, a line each. The messages of a queue stay where they are, unless --take is "
        "given. It goes on with later messages until Ctrl-C, or as -n or -e say."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("address", metavar="ADDRESS", help="where to receive from")
    group = parser.add_argument_group("which messages")
    group.add_argument("-n", "--count", type=int, metavar="COUNT", help="end after so many messages")
    group.add_argument("-e", "--end", action="store_true", help="end behind what is there now")
    group.add_argument(
        "--from",
        dest="start",
        metavar="PLACE",
        help="where in a log to begin: first, last, next, an offset, @-1h, @2026-11-28T10:00 (default: next, with -e: "
        "first)",
    )
    group.add_argument(
        "--group", metavar="NAME", help="be a member of this consumer group of a log, which keeps the place"
    )
    group.add_argument(
        "--filter", metavar="SQL", help="an expression of SQL over properties, where the peer has such filters"
    )
    group = parser.add_argument_group("what becomes of them")
    group.add_argument("--take", action="store_true", help="take the messages out of the queue")
    group.add_argument(
        "--settle",
        choices=sorted(_VERBS),
        help="with --take: accept (the default), reject, or release: give them back unchanged at the end",
    )
    group.add_argument("--step", action="store_true", help="ask for a message at each Enter, and not before")
    group = parser.add_argument_group("how they are written")
    group.add_argument("--format", metavar="TEXT", help="write this for each message; see below")
    group.add_argument(
        "--out", type=Path, metavar="DIR", help="write each message into a file of its own in this folder"
    )
    add_output_options(parser)
    add_peer_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Receive.

    Errors: `CommandEnded` for an option that cannot be, and for whatever goes wrong.
    """
    from rstreams.cli.printing import printer_of

    _check(arguments)
    start: Any = None
    if arguments.start is not None:
        from rstreams.cli.positions import read_position

        start = read_position(arguments.start)
    printer = printer_of(arguments)
    return run_client(arguments, lambda client: RecvRun(client, printer, start).work())


def _check(arguments: argparse.Namespace) -> None:
    wrong = ""
    if arguments.count is not None and arguments.count < 1:
        wrong = f"-n {arguments.count}: give a number of messages, 1 or more"
    elif arguments.settle is not None and not arguments.take:
        wrong = "--settle: messages that are only looked at are not settled; give --take, too"
    elif arguments.group is not None and arguments.take:
        wrong = "--group and --take: a group keeps its place in a log, and takes nothing out of it; leave out --take"
    elif arguments.start is not None and arguments.take:
        wrong = "--from and --take: a place is in a log, and a log keeps its messages; leave out --take"
    elif not arguments.address:
        wrong = "ADDRESS: it is empty; rstreams ls lists the addresses, where the peer can"
    elif arguments.json and arguments.format is not None:
        wrong = "--json and --format: give one of them"
    elif arguments.out is not None and arguments.format is not None:
        wrong = "--out and --format: a file has the body or, with --json, the whole message; leave out --format"
    if wrong:
        raise mistake(wrong)


class RecvRun:
    """One run of the command."""

    def __init__(self, client: Command, printer: Printer, start: Any) -> None:  # noqa: ANN401 - a place in a log
        """Receive what the arguments say, and print it."""
        self._client = client
        self._arguments = client.arguments
        self._printer = printer
        self._start = start
        self._settle: Settle = self._arguments.settle or "accept"
        self._began = time.monotonic()
        self._is_writing = False
        self._came_at = 0.0
        self._given_back = 0

    async def work(self) -> int:
        """Receive until the end; return the exit code."""
        before = time.monotonic()
        async with self._client.connect() as connection:
            self._quiet_s = max(_QUIET_S, time.monotonic() - before)  # a peer far away takes longer to answer
            self._began = time.monotonic()
            self._client.summary = self._tell
            stream, ends = await self._stream(connection)
            await self._receive(connection, stream, ends=ends)
        wanted = self._arguments.count
        return ExitCode.NOT_ALL if wanted is not None and self._printer.count < wanted else ExitCode.DONE

    # ------------------------------------------------------------------------------------------------ the stream

    async def _stream(self, connection: Connection) -> tuple[Stream[bytes], bool]:
        """Return the stream, and whether it ends by itself behind what is there now."""
        from rstreams.cli.looking import looks_of

        arguments = self._arguments
        options: dict[str, Any] = {"decode": bytes}
        if arguments.filter is not None:
            options["filters"] = _filters(connection, arguments.filter)
        if arguments.take and self._settle == "release":
            options["window"] = self._most or 1  # they are all in hand until the end
        if arguments.group is not None:
            options |= {"group": arguments.group, "start": self._start, "to_end": arguments.end}
        elif not arguments.take:
            options |= await looks_of(connection, arguments.address, self._start, to_end=arguments.end)
        return connection.stream(arguments.address, **options), bool(options.get("to_end"))

    @property
    def _most(self) -> int | None:
        """The most messages to receive; None: any number."""
        from rstreams.cli.intake import ROOM

        wanted = cast("int | None", self._arguments.count)
        return wanted or ROOM if self._settle == "release" and self._arguments.take else wanted

    async def _receive(self, connection: Connection, stream: Stream[bytes], *, ends: bool) -> None:
        from rstreams import Scope
        from rstreams.cli.intake import MessageIntake

        intake = MessageIntake(self._most, by_hand=self._arguments.step)
        stream.subscribe(intake)
        try:
            async with Scope() as scope:
                scope.nursery.start_soon(self._watch_reader, intake)
                if self._arguments.end and not ends:
                    scope.nursery.start_soon(self._end_when_quiet, connection, intake)
                if self._arguments.step:
                    scope.nursery.start_soon(self._step, connection, intake)
                await self._print(intake)
                scope.nursery.cancel_scope.cancel()
        finally:
            intake.leave()
        if intake.error is not None:
            raise intake.error

    async def _print(self, intake: MessageIntake) -> None:
        """Print what comes until it ends; what has not been printed is given back."""
        import trio

        kept: list[Any] = []  # with release: until the end, or the same messages would come again
        try:
            while self._most is None or self._printer.count < self._most:
                single = self._arguments.take and self._printer.count < _ONE_BY_ONE
                items, claims = await intake.take(single=single)
                if not items:
                    break
                self._is_writing = True
                try:
                    await trio.to_thread.run_sync(self._write, items, abandon_on_cancel=True)
                except BaseException:
                    self._given_back += len(items)
                    for claim in claims:
                        claim.release()
                    raise
                finally:
                    self._is_writing = False
                self._came_at = trio.current_time()
                self._printer.count += len(items)
                if self._arguments.take and self._settle == "release":
                    kept += claims
                    claims = []
                intake.written(len(items), claims, self._settle)
                self._client.console.progress(f"{self._printer.count:,} messages")
        except BrokenPipeError:  # whoever reads has enough
            pass
        finally:
            for claim in kept:
                claim.release()

    def _write(self, items: list[bytes]) -> None:
        """Write messages; what is taken out of a queue is accepted when the reader of the pipe has it.

        Runs in a thread.
        """
        self._printer.write(self._printer.text_of(items))
        if self._arguments.take:
            self._printer.wait_until_read()

    async def _watch_reader(self, intake: MessageIntake) -> None:
        """End when the reader of the pipe has gone, also while no message comes."""
        import trio

        while not self._printer.reader_has_gone():  # noqa: ASYNC110 - the system has no event for it
            await trio.sleep(_QUIET_S)
        intake.stop()

    async def _end_when_quiet(self, connection: Connection, intake: MessageIntake) -> None:
        """End when nothing more comes: the peer is asked to send what it still has, and to say when that is all."""
        import trio

        self._came_at = trio.current_time()
        while self._is_writing or trio.current_time() - self._came_at < self._quiet_s:  # noqa: ASYNC110 - as above
            await trio.sleep(_LOOK_EVERY_S)
        await connection.drain_and_close(timeout_s=self._client.peer.timeout_s)
        intake.stop()

    async def _step(self, connection: Connection, intake: MessageIntake) -> None:
        """Ask for a message whenever Enter is pressed; behind the last Enter, end when nothing more comes."""
        import sys

        import trio

        self._client.console.note("Enter asks for a message; Ctrl-D ends")
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            if not intake.grant():
                return
        await self._end_when_quiet(connection, intake)

    def _tell(self) -> None:
        """Say how many there were."""
        count, span_s = self._printer.count, time.monotonic() - self._began
        if self._arguments.group is not None:
            verb = "read"
        else:
            verb = _VERBS[self._settle] if self._arguments.take else "looked at"
        rate = f" in {span_s:.2f} s, {count / span_s:,.0f}/s" if count > 1 else ""
        self._client.console.note(f"{count:,} {'message' if count == 1 else 'messages'} {verb}{rate}")
        if self._given_back and self._arguments.take:
            self._client.console.note(f"{self._given_back:,} more came, were not written, and are given back")
        if self._printer.skipped:
            self._client.console.note(f"{self._printer.skipped:,} messages were skipped: the log has them no more")


def _filters(connection: Connection, expression: str) -> Any:  # noqa: ANN401 - a mapping of any values
    from rstreams.errors import ConfigError

    try:
        return connection.dialect.selector(expression)
    except ConfigError as error:
        msg = f"--filter: {error}; filter the lines in its place, for instance with --json and jq"
        raise CommandEnded(ExitCode.REFUSED, msg) from None

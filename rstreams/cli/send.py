"""`rstreams send`: send messages to an address, each with its outcome."""

from __future__ import annotations

import argparse
from typing import Final

from rstreams.cli.client import run_client
from rstreams.cli.console import add_output_options
from rstreams.cli.exit_codes import mistake
from rstreams.cli.parser import Parser
from rstreams.cli.peer import add_peer_options

_EXAMPLES: Final = """\
examples:
  rstreams send orders tea milk                      two messages
  rstreams send orders -n 1000 --rate 100 'order {n} of {now}' --id '{uuid}'
  rstreams send orders < lines.txt                   a message for each line
  rstreams send orders --file photo.jpg --content-type image/jpeg
  rstreams send orders --csv --file orders.csv       a JSON object for each row
  rstreams send orders --as value '{"article": 5}' -p shop=north -p express:=true --key north
  rstreams recv orders --json -e | rstreams send copies --jsonl

templates: {n} the number, {uuid}, {now}, {random:1024} so many characters; in arguments and in options
"""


def add_options(parser: Parser) -> None:
    """Describe the command."""
    parser.mixes = True
    parser.description = (
        "Send messages: the arguments, whole files, or a message for each line of standard input or of files. It waits "
        "until the peer has accepted them all, and tells those that it has not accepted."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("address", metavar="ADDRESS", help="where to send to")
    parser.add_argument("body", nargs="*", metavar="BODY", help="a message, or a template of one")
    group = parser.add_argument_group("what is sent")
    group.add_argument(
        "-f", "--file", action="append", default=[], metavar="FILE", help="read this file, - is standard input"
    )
    forms = group.add_mutually_exclusive_group()
    forms.add_argument("--lines", action="store_true", help="a message for each line (of standard input: the default)")
    forms.add_argument("--whole", action="store_true", help="a message for each file (of --file: the default)")
    forms.add_argument("--jsonl", action="store_true", help="a message for each line, as recv --json writes them")
    forms.add_argument("--csv", action="store_true", help="a JSON object for each row, by the names of the first row")
    group.add_argument("-n", "--count", type=int, metavar="COUNT", help="so many messages; arguments are repeated")
    group.add_argument("--rate", type=float, metavar="NUMBER", help="at most so many messages a second")
    group.add_argument(
        "--as",
        dest="kind",
        choices=("bytes", "string", "value"),
        default="bytes",
        help="what a body is: bytes (a Data section, the default), a string, or the AMQP value of its JSON",
    )
    group.add_argument("--no-templates", action="store_true", help="send {n} and its like as they are")
    group.add_argument("--at-most-once", action="store_true", help="send settled: do not wait for outcomes")
    _add_parts(parser)
    add_output_options(parser)
    add_peer_options(parser)
    parser.set_defaults(run=run)


def _add_parts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("parts of each message")
    group.add_argument(
        "-p",
        "--property",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="an application property; NAME:=JSON for a number, true or false; may be repeated",
    )
    group.add_argument(
        "--annotation", action="append", default=[], metavar="NAME=TEXT", help="an annotation, in the same form"
    )
    for name, what in (
        ("key", "the key (the annotation x-opt-partition-key): messages of a key keep their order in a log"),
        ("id", "the message id"),
        ("subject", "the subject"),
        ("correlation-id", "the correlation id"),
        ("reply-to", "the address for answers"),
        ("content-type", "the type of the body, such as application/json"),
        ("group", "the group id"),
    ):
        group.add_argument(f"--{name}", metavar="TEXT", help=what)
    group.add_argument("--ttl", type=float, metavar="SECONDS", help="the message is too old after this time")
    group.add_argument("--priority", type=int, metavar="NUMBER", help="0 to 255; 4 is normal")
    group.add_argument("--delay", type=float, metavar="SECONDS", help="keep it back, where the peer does that")
    group.add_argument(
        "--durable",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="the peer must keep it over its restart (default: yes, and at a node as its address says)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Send.

    Errors: `CommandEnded` for an option that cannot be, and for whatever goes wrong.
    """
    _check(arguments)
    from rstreams.cli.parts import Parts
    from rstreams.cli.sending import SendRun

    parts = Parts(arguments)
    return run_client(arguments, lambda client: SendRun(client, parts).work())


def _check(arguments: argparse.Namespace) -> None:
    forms = [name for name in ("lines", "whole", "jsonl", "csv") if getattr(arguments, name)]
    wrong = ""
    if arguments.count is not None and arguments.count < 1:
        wrong = f"-n {arguments.count}: give a number of messages, 1 or more"
    elif arguments.rate is not None and not 0 < arguments.rate < float("inf"):
        wrong = f"--rate {arguments.rate:g}: give a number of messages a second above 0, such as 100"
    elif not arguments.address:
        wrong = "ADDRESS: it is empty; rstreams ls lists the addresses, where the peer can"
    elif arguments.body and arguments.file:
        wrong = "BODY and --file: give one of them"
    elif arguments.body and forms:
        wrong = f"BODY and --{forms[0]}: this reads standard input, or --file; leave out the one or the other"
    elif arguments.jsonl and arguments.kind != "bytes":
        wrong = "--jsonl and --as: an envelope says itself what its body is"
    elif arguments.csv and arguments.kind == "string":
        wrong = "--csv and --as string: a row is a JSON object; give --as bytes or --as value"
    if wrong:
        raise mistake(wrong)

"""`rstreams node`: the options of the command. `rstreams.cli.described_node` makes a node of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from rstreams.cli import hash_password
from rstreams.cli.node_limits import LIMITS
from rstreams.cli.parser import Parser
from rstreams.net.options import limits

_EXAMPLES = """\
examples:
  rstreams node --queue orders --queue jobs:5000
  rstreams node --listen 127.0.0.1:0 --multicast prices:drop_oldest --url-file node.url
  rstreams node --queue orders --user alice:/run/secrets/alice --user bob:env:BOBS_PASSWORD
  rstreams node --config node.toml
  rstreams node --config node.toml --check
  rstreams node --listen 0.0.0.0:5672 --anonymous --queue orders
  rstreams node --listen 0.0.0.0:5671 --tls-cert node.pem --tls-key node.key --tls-client-ca clients.pem --queue orders
"""


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Run an AMQP 1.0 node until SIGINT or SIGTERM. It then finishes the work under way, and a second signal ends "
        "it at once. When it is ready it prints a line for each listener: listening on amqp://HOST:PORT, or amqps:// "
        "with TLS"
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a file (TOML) that describes the node: listeners, addresses, users, permissions, limits; SIGHUP reads "
        "users, permissions, limits and certificates again",
    )
    parser.add_argument("--check", action="store_true", help="print what would run, or all that is wrong, and end")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen; port 0 is any free port (default: 127.0.0.1:5672, with TLS 127.0.0.1:5671)",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="NAME[:CAPACITY]",
        help="a queue for competing consumers, of 1024 messages or as many as given; no colon in NAME; may be repeated",
    )
    parser.add_argument(
        "--multicast",
        action="append",
        default=[],
        metavar="NAME[:OVERFLOW]",
        help="an address whose subscribers each get a copy: as fast as the slowest (block, the default), or with its "
        "oldest items dropped for a slow subscriber (drop_oldest); may be repeated",
    )
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="NAME:FILE",
        help="let in only these users; the password, or its hash, is the first line of FILE or, with "
        "NAME:env:VARIABLE, an environment variable; may be repeated (default: everyone of this machine; see "
        "--anonymous)",
    )
    _add_security_to(parser)
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="where to answer HTTP: /metrics for Prometheus, /state.json, /livez, /readyz; with the users, the TLS and "
        "the security options of --listen (default: nowhere)",
    )
    parser.add_argument("--url-file", type=Path, metavar="FILE", help="write the url to FILE while the node listens")
    parser.add_argument(
        "--store", metavar="FOLDER", help="the folder of durable addresses, made if it is missing; see --config"
    )
    parser.add_argument(
        "--drain-s",
        type=float,
        metavar="SECONDS",
        default=limits.DEFAULT_DRAIN_S,
        help="how long the work under way may take after the first signal; 0: none (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        metavar="FORMAT",
        help="how the lines of the log look, on standard error: text, or json, one object a line (default: what the "
        "environment variable RSTREAMS_LOG says, or text)",
    )
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        default="info",
        help="the least level of these lines: debug, info, warning or error (default: %(default)s)",
    )
    parser.set_defaults(run=run, parser=parser)
    inner = parser.add_subparsers(dest="node_command", metavar="COMMAND")
    hash_password.add_to(inner)
    parser.commands = inner.choices


def _add_security_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("security")
    group.add_argument("--tls-cert", metavar="FILE", help="speak only TLS, with this certificate (PEM)")
    group.add_argument("--tls-key", metavar="FILE", help="its private key (PEM), if it is not in the same file")
    group.add_argument(
        "--tls-client-ca",
        metavar="FILE",
        help="let in only clients with a certificate that one of these authorities (PEM) has signed",
    )
    group.add_argument(
        "--certificate-user",
        action="append",
        default=[],
        metavar="NAME:SUBJECT",
        help="let in by certificate (SASL EXTERNAL) only clients whose certificate has this subject, such as "
        "alice:CN=alice,O=Example; may be repeated (default: every certificate that is signed)",
    )
    group.add_argument(
        "--anonymous",
        action="store_true",
        help="let everyone in, also from other machines, if there are no users; by default only from this machine",
    )
    group.add_argument(
        "--allow-plain-over-tcp",
        action="store_true",
        help="accept passwords in clear text from other machines; by default, without TLS, only from this machine",
    )
    for name, what in LIMITS.items():
        option, metavar = f"--{name.replace('_', '-')}", "BYTES" if name.endswith("bytes") else "COUNT"
        default = getattr(limits, f"DEFAULT_{name.upper()}")
        group.add_argument(option, type=int, metavar=metavar, default=default, help=f"{what} (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the node, or check its description; see `described_node.run`."""
    from rstreams.cli import described_node

    return described_node.run(arguments)

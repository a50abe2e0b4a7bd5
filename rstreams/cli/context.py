"""`rstreams context`: keep urls and users under short names."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rstreams.cli.console import Console, add_output_options
from rstreams.cli.contexts import VARIABLE, Contexts, PeerSettings, contexts_file, read_contexts, write_contexts
from rstreams.cli.exit_codes import mistake
from rstreams.cli.parser import Parser
from rstreams.cli.peer import DEFAULT_URL, add_settings, given_settings, password_of

_EXAMPLES: Final = """\
examples:
  rstreams context add prod --url amqps://broker.example --user alice --password-file ~/.secrets/alice
  rstreams context add rabbit --url amqp://127.0.0.1:5672 --user guest --password-file env:RABBIT_PASSWORD --select
  rstreams context select prod
  rstreams context previous
  rstreams context ls
"""

_FILES: Final = ("password_file", "tls_ca", "tls_cert", "tls_key")


def add_options(parser: Parser) -> None:
    """Add the inner commands."""
    parser.description = (
        f"Keep urls and users under short names. A command uses the context of --context, of ${VARIABLE}, or the "
        f"selected one. The file {contexts_file()} can be read by its owner alone, and never holds a password: it "
        "names the file or the variable where the password is."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    inner = parser.add_subparsers(dest="context_command", required=True, metavar="COMMAND")
    add = inner.add_parser("add", help="add a context; the first one is selected", allow_abbrev=False)
    add.add_argument("name", metavar="NAME")
    add_settings(add.add_argument_group("the peer"))
    add.add_argument("--replace", action="store_true", help="replace a context of this name")
    add.add_argument("--select", action="store_true", help="select it")
    for name, what in (("select", "select a context"), ("rm", "remove a context")):
        one = inner.add_parser(name, help=what, allow_abbrev=False)
        one.add_argument("name", metavar="NAME")
        add_output_options(one)
    for name, what in (("previous", "select the context before"), ("ls", "list the contexts")):
        add_output_options(inner.add_parser(name, help=what, allow_abbrev=False))
    add_output_options(add)
    parser.commands = inner.choices
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the inner command.

    Errors: `CommandEnded` for a context that is not there, or a file that cannot be used.
    """
    console = Console(arguments)
    contexts = read_contexts()
    command = arguments.context_command
    if command == "ls":
        _list(contexts, console)
        return
    if command == "add":
        _add(contexts, arguments)
    elif command == "select":
        contexts.select(arguments.name)
    elif command == "previous":
        if not contexts.previous:
            msg = "no other context was selected before; rstreams context ls lists them"
            raise mistake(msg)
        contexts.select(contexts.previous)
    else:
        contexts.remove(arguments.name)
    write_contexts(contexts)
    if console.json:
        console.print_object({"selected": contexts.selected, "previous": contexts.previous})
    else:
        console.note(f"{contexts.selected!r} is selected" if contexts.selected else "no context is selected")


def _add(contexts: Contexts, arguments: argparse.Namespace) -> None:
    name = arguments.name
    if not name or not name.isprintable() or name.startswith("-"):
        msg = f"a context cannot be named {name!r}: give a word such as prod"
        raise mistake(msg)
    if name in contexts.named and not arguments.replace:
        msg = f"there is a context {name!r} already; give --replace, or another name"
        raise mistake(msg)
    contexts.named[name] = _kept(given_settings(arguments))
    if arguments.select or not contexts.selected:
        contexts.select(name)


def _kept(settings: PeerSettings) -> PeerSettings:
    """Return the settings with absolute names of files; a password that is in a file can be read."""
    if settings.password_file is not None and not settings.password_file.startswith("env:"):
        password_of(settings.password_file)
    whole: dict[str, Any] = {
        name: str(Path(value).expanduser().absolute())
        for name in _FILES
        if (value := getattr(settings, name)) is not None and not value.startswith("env:")
    }
    return replace(settings, url=settings.url or DEFAULT_URL, **whole)


def _list(contexts: Contexts, console: Console) -> None:
    for name, settings in sorted(contexts.named.items()) if console.json else ():
        console.print_object({"name": name, "selected": name == contexts.selected, **settings.given()})
    if not console.json:
        rows = [
            ("*" if name == contexts.selected else "", name, settings.url or "", settings.user or "")
            for name, settings in sorted(contexts.named.items())
        ]
        console.table(("", "name", "url", "user"), rows)

"""`rstreams completion`: the script with which a shell completes the words of a command; and the words themselves.

The script calls `rstreams __complete WORD...` at each TAB; the last word is the one to complete. It imports neither the
network nor the engine, unless an address is to be completed: then the peer is asked for its addresses, for a second.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from rstreams.cli.contexts import read_contexts
from rstreams.cli.exit_codes import CommandEnded, ExitCode
from rstreams.cli.parser import Parser
from rstreams.cli.peer import add_peer_options, chosen_peer

RootParser: TypeAlias = Callable[[Sequence[str]], tuple[Parser, Any]]

ASKED: Final = "__complete"
"""The first word of a call by the script."""

_PEER_TIMEOUT_S: Final = 1.0
_MOST_SAID: Final = 80
_FILES: Final = ("FILE", "FOLDER", "DIR")

_BASH: Final = """\
_rstreams() {
    local IFS=$'\\n' found
    found=$(rstreams __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || { COMPREPLY=(); return; }
    COMPREPLY=($(cut -f1 <<<"$found"))
    declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "${COMP_WORDS[COMP_CWORD]}"
}
complete -o bashdefault -o default -F _rstreams rstreams
"""

_ZSH: Final = """\
#compdef rstreams
_rstreams() {
    local -a found
    local line
    while IFS= read -r line; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done < <(rstreams __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe rstreams found; else _files; fi
}
if [[ $funcstack[1] == _rstreams ]]; then _rstreams "$@"; else compdef _rstreams rstreams; fi
"""

_FISH: Final = """\
function __rstreams_complete
    set -l words (commandline -opc)[2..] (commandline -ct)
    rstreams __complete $words 2>/dev/null; or __fish_complete_path (commandline -ct)
end
complete -c rstreams -f -a '(__rstreams_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

_EXAMPLES: Final = """\
examples:
  rstreams completion bash >> ~/.bashrc
  rstreams completion zsh > "${fpath[1]}/_rstreams"
  rstreams completion fish > ~/.config/fish/completions/rstreams.fish
"""


def add_options(parser: Parser) -> None:
    """Describe the command."""
    parser.description = (
        "Print the script with which a shell completes commands, options, contexts and, where the peer lists them, "
        "addresses."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=sorted(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    print(SCRIPTS[arguments.shell], end="")


def complete(parser: Parser, words: Sequence[str]) -> int:
    """Print the words that the last one may become, each with what it is behind a tab; the shell asks for them.

    Args:
        parser: The parser of these words.
        words: The words behind `rstreams`; the last one may be empty.

    Returns: 1 if the shell is to complete names of files instead.
    """
    *before, last = words or [""]
    found = _candidates(parser, before, last)
    if found is None:
        return ExitCode.NOT_ALL
    for word, what in found:
        if word.startswith(last):
            print(f"{word}\t{what.partition(' (default')[0].partition('; ')[0][:_MOST_SAID]}")
    return ExitCode.DONE


def _candidates(parser: Parser, before: Sequence[str], last: str) -> Iterator[tuple[str, str]] | None:
    """Return the words and what they are; None for names of files."""
    waiting: argparse.Action | None = None  # the option whose value comes next
    positionals = 0
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and word != "-":
            option = parser._option_string_actions.get(word)  # noqa: SLF001 - argparse has no other door to it
            waiting = option if option is not None and option.nargs != 0 else None
        elif word in parser.commands:
            parser, positionals = _inner(parser, word), 0
        else:
            positionals += 1
    if waiting is not None:
        return _values(waiting)
    if last.startswith("-"):
        return ((name, action.help or "") for name, action in parser._option_string_actions.items())  # noqa: SLF001
    return _positional(parser, positionals, before)


def _inner(parser: Parser, word: str) -> Parser:
    inner: Parser = _subparsers(parser).choices[word]
    return inner


def _subparsers(parser: Parser) -> argparse._SubParsersAction[Parser]:
    actions = parser._actions  # noqa: SLF001 - argparse has no other door to it
    return next(each for each in actions if isinstance(each, argparse._SubParsersAction))  # noqa: SLF001 - likewise


def _values(action: argparse.Action) -> Iterator[tuple[str, str]] | None:
    if action.choices is not None:
        return ((str(each), "") for each in action.choices)
    if action.dest == "context":
        return _contexts()
    if action.dest == "dialect":
        from rstreams.net.dialects import DIALECTS

        return ((name, "") for name in DIALECTS)
    return None if any(word in str(action.metavar) for word in _FILES) else iter(())


def _positional(parser: Parser, number: int, before: Sequence[str]) -> Iterator[tuple[str, str]] | None:
    if parser.commands:
        return (
            (each.dest, each.help or "")
            for each in _subparsers(parser)._choices_actions  # noqa: SLF001 - it holds the lines of help
        )
    own = parser._get_positional_actions()  # noqa: SLF001 - argparse has no other door to it
    action = own[number] if number < len(own) else None
    if action is None:
        return iter(())
    if action.dest == "address":
        return _addresses(before)
    return _contexts() if action.dest == "name" else _values(action)


def _contexts() -> Iterator[tuple[str, str]]:
    try:
        contexts = read_contexts()
    except CommandEnded:
        return
    for name, settings in sorted(contexts.named.items()):
        yield name, settings.url or ""


def _addresses(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Ask the peer that the words name; whoever has to type a password is not asked for one here."""
    options = Parser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_peer_options(options)
    try:
        arguments, _ = options.parse_known_args(before)
        arguments.timeout = _PEER_TIMEOUT_S
        peer = chosen_peer(arguments, may_ask=False)
    except (CommandEnded, argparse.ArgumentError):
        return
    import trio

    import rstreams
    from rstreams.cli.addresses import listed_addresses

    async def listed() -> list[tuple[str, str]]:
        async with rstreams.connect(**peer.connect_options()) as connection:
            return [(each.name, each.kind) for each in await listed_addresses(connection)]

    try:
        yield from sorted(trio.run(listed))
    except Exception:  # whatever it is: a shell that completes words is no place to say it
        return


def answer(words: Sequence[str], root_parser: RootParser) -> int:
    """Answer the script; whatever is wrong with the words, nothing is printed about it.

    Args:
        words: The words up to the one to complete.
        root_parser: Makes the parser of the whole program, and those of its commands, for some words.
    """
    try:
        parser, commands = root_parser(words[:-1])
        parser.commands = commands.choices
        return complete(parser, words)
    except CommandEnded:
        return ExitCode.MISTAKE
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.NOT_ALL

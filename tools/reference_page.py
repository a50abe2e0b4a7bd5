"""Write the reference, docs/reference.md: a table of the public names of each module, from their docstrings.

    python tools/reference_page.py            write the page
    python tools/reference_page.py --check    fail if it is not as it would be written

The tables are for readers of the file. Below them are the directives that show the whole docstrings in the site.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference.md"

MODULES: dict[str, str] = {
    "rstreams": "What most programs need.",
    "rstreams.stream": "The classes of streams. [The operators](operators/index.md) describe their methods.",
    "rstreams.sources": "Functions that make a publisher; as methods of `Stream` they make a stream. "
    "[Page](operators/sources.md)",
    "rstreams.operators": "Functions from a publisher to a publisher; the methods of `Stream` call them. "
    "[Pages](operators/index.md)",
    "rstreams.push": "Publishers that send what is pushed into them. [Guide](guides/sharing.md)",
    "rstreams.observables": "The bridge to reactivex. [Guide](guides/reactivex.md)",
    "rstreams.notifications": "Signals as items.",
    "rstreams.message": "Messages, and how items become messages. [Guide](guides/codecs.md)",
    "rstreams.columns": "Fields of many messages as columns, for adapters to engines of tables.",
    "rstreams.net.connection": "An open connection, and the results of its methods. [Guide](guides/delivery.md)",
    "rstreams.net.dialects": "How each broker writes addresses and filters. [Guide](guides/brokers.md)",
    "rstreams.net.cbs": "Tokens, for peers that ask for them. [Guide](guides/azure.md)",
    "rstreams.net.end_of_stream": "How to send the end of a stream through a broker. [Guide](guides/brokers.md)",
    "rstreams.net.management": "Management over a connection. [Guide](guides/node.md#manage-it-while-it-runs)",
    "rstreams.node": "A node in your program, its addresses, its users, and the address of its statistics.",
    "rstreams.node.config": "A node as data, such as a config file. [Guide](guides/node.md)",
    "rstreams.node.statistics": "The counters of a node, from `node.statistics()` and from the address `STATISTICS`.",
    "rstreams.store": "The store of a node, for kinds of address that remember.",
    "rstreams.tls": "Contexts for TLS. [Guide](guides/security.md)",
    "rstreams.aio": "Connections, nodes and streams for asyncio. [Guide](guides/asyncio.md)",
    "rstreams.blocking": "Connections and streams for threads. [Guide](guides/asyncio.md#threads)",
    "rstreams.errors": "Every exception.",
    "rstreams.abc": "The protocols, for publishers, subscribers and schedulers of your own.",
    "rstreams.testing": "Tools for tests of streams. [Guide](guides/testing.md)",
    "rstreams.simulation": "Simulates whole systems of nodes, clients and programs, from one seed.",
    "rstreams.simulation.checker": "Judges histories of systems of messages. [Guide](guides/histories.md)",
}
"""The modules that users import from, with a sentence for each."""

BESIDE: dict[str, tuple[str, ...]] = {
    "rstreams.net.connection": (
        "rstreams._published.RefusedItem",
        "rstreams.net.transport.carrier.ConnectionStatus",
        "rstreams.net.links.draining.Drained",
        "rstreams.net.request_reply.requester.Requester",
        "rstreams.net.links.sight.Sight",
    ),
}
"""Names that are shown with a module, but are defined in another one: they are returned, and never imported."""

IN_FULL = (
    "rstreams.stream",
    "rstreams.sources",
    "rstreams.operators",
    "rstreams.push",
    "rstreams.observables",
    "rstreams.notifications",
    "rstreams.runtime.scope.Scope",
    "rstreams.runtime.service.run",
    "rstreams.net.client",
    "rstreams.net.connection.Connection",
    "rstreams._published",
    "rstreams.net.links.sender",
    "rstreams.net.transport.reconnect.Reconnect",
    "rstreams.net.transport.carrier.ConnectionStatus",
    "rstreams.net.links.draining.Drained",
    "rstreams.net.links.sight.Sight",
    "rstreams.net.request_reply.requester.Requester",
    "rstreams.net.dialects",
    "rstreams.net.dialects.azure",
    "rstreams.net.cbs",
    "rstreams.net.end_of_stream",
    "rstreams.node.Node",
    "rstreams.node.administration.AdministeredNode",
    "rstreams.node.Permission",
    "rstreams.node.PasswordHash",
    "rstreams.node.UserLimits",
    "rstreams.node.config",
    "rstreams.net.management",
    "rstreams.node.STATISTICS",
    "rstreams.node.statistics",
    "rstreams.store.repair",
    "rstreams.tls",
    "rstreams.aio",
    "rstreams.blocking",
    "rstreams.abc",
    "rstreams.message",
    "rstreams.errors",
    "rstreams.testing",
)
"""The names whose whole docstrings are shown in the site."""


_INTRODUCTION = (
    "This page lists every public name with one sentence. `help(rstreams.connect)` shows the whole description.",
    "The site that `make docs` builds also shows it, below the tables.",
    "`tools/reference_page.py` writes the page from the docstrings: change these, then run `make format`.",
)


def page() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def names_of(module: str) -> list[str]:
    """Return the public names of a module."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and any(isinstance(at, ast.Name) and at.id == "__all__" for at in node.targets):
            return sorted(ast.literal_eval(node.value), key=str.lower)
    message = f"{module} has no __all__"
    raise LookupError(message)


def _lines() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield from _INTRODUCTION
    for module, text in MODULES.items():
        yield ""
        yield f"## `{module}`"
        yield ""
        yield text
        yield ""
        yield "| name | what it is |"
        yield "|---|---|"
        for name in names_of(module):
            yield f"| `{name}` | {told(module, name)} |"
        for path in BESIDE.get(module, ()):
            place, _, name = path.rpartition(".")
            yield f"| `{name}` | {told(place, name)} |"
    yield ""
    yield "## In full"
    yield ""
    yield "In the site the docstrings follow here."
    for path in IN_FULL:
        yield ""
        yield f"::: {path}"


def told(module: str, name: str) -> str:
    """Return the first sentence of what is said of a name, for a cell of a table.

    Errors: `LookupError` if nothing is.
    """
    text = inspect.cleandoc(_docstring(module, name)).partition("\n\n")[0]
    sentence = re.split(r"(?<=[^.][.]) (?=[A-Z`\"])", " ".join(text.split()), maxsplit=1)[0]
    return sentence.replace("|", r"\|").removesuffix(".")


def _docstring(module: str, name: str) -> str:
    body: list[ast.stmt] = []
    for node in _tree(module).body:  # a name that is imported when it is used is in a block for type checkers
        body += node.body if isinstance(node, ast.If) else [node]
    for node, behind in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            found = ast.get_docstring(node)
            if found:
                return found
        elif isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node):
            if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
                return str(behind.value.value)
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module
            and any((each.asname or each.name) == name for each in node.names)
        ):
            return _docstring(node.module, name)
    message = f"{module}.{name} has no docstring"
    raise LookupError(message)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _tree(module: str) -> ast.Module:
    found = importlib.util.find_spec(module)
    assert found is not None, module
    assert found.origin is not None, module
    return ast.parse(Path(found.origin).read_text(encoding="utf-8"))


def main() -> None:
    """Write the page, or check it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        print("docs/reference.md is not as tools/reference_page.py writes it: run `make format`", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

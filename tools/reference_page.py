"""Write the reference, docs/reference/: a page a module, with a table of its public names from their docstrings.

    python tools/reference_page.py            write the pages
    python tools/reference_page.py --check    fail if one of them is not as it would be written

The tables are for readers of the files. Below them are the directives that show the whole docstrings in the site.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import NamedTuple

from operator_pages import families

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"


class Module(NamedTuple):
    """What the page of a module shows beside the table of its names."""

    text: str
    """A sentence."""
    full: tuple[str, ...] = ()
    """The names whose whole docstrings follow in the site."""
    beside: tuple[str, ...] = ()
    """Names of the table that are defined in another module: they are returned, and never imported."""


MODULES: dict[str, Module] = {
    "rstreams": Module(
        "What most programs need.",
        (
            "rstreams.net.client.connect",
            "rstreams.runtime.scope.Scope",
            "rstreams.runtime.service.run",
            "rstreams.net.transport.reconnect.Reconnect",
        ),
    ),
    "rstreams.stream": Module(
        "The classes of streams. [The operators](../operators/index.md) describe their methods.", ("rstreams.stream",)
    ),
    "rstreams.sources": Module("Functions that make a publisher; as methods of `Stream` they make a stream."),
    "rstreams.operators": Module("Functions from a publisher to a publisher; the methods of `Stream` call them."),
    "rstreams.push": Module(
        "Publishers that send what is pushed into them. [Guide](../guides/sharing.md)", ("rstreams.push",)
    ),
    "rstreams.observables": Module(
        "The bridge to reactivex. [Guide](../guides/reactivex.md)", ("rstreams.observables",)
    ),
    "rstreams.notifications": Module("Signals as items.", ("rstreams.notifications",)),
    "rstreams.culprits": Module(
        "Who waits for whom, and the culprit. [Guide](../guides/looking.md#who-waits-for-whom-across-processes)",
        ("rstreams.culprits",),
    ),
    "rstreams.message": Module(
        "Messages, and how items become messages. [Guide](../guides/codecs.md)", ("rstreams.message",)
    ),
    "rstreams.columns": Module(
        "Fields of many messages as columns, for adapters to engines of tables.", ("rstreams.columns",)
    ),
    "rstreams.net.connection": Module(
        "An open connection, and the results of its methods. [Guide](../guides/delivery.md)",
        (
            "rstreams.net.connection.Connection",
            "rstreams.net.request_reply.connection_methods.RequestReply",
            "rstreams.net.management.client.ManagementMethods",
            "rstreams.net.links.named_subscriptions.SubscriptionMethods",
            "rstreams.net.links.looking.LookingMethods",
            "rstreams.net.links.draining.DrainingMethods",
            "rstreams.protocol.delivery.Delivery",
            "rstreams._published",
            "rstreams.net.links.sender",
            "rstreams.net.transport.carrier.ConnectionStatus",
            "rstreams.net.links.draining.Drained",
            "rstreams.net.links.sight.Sight",
            "rstreams.net.request_reply.requester.Requester",
        ),
        (
            "rstreams._published.RefusedItem",
            "rstreams.net.transport.carrier.ConnectionStatus",
            "rstreams.net.links.draining.Drained",
            "rstreams.net.request_reply.requester.Requester",
            "rstreams.net.links.sight.Sight",
        ),
    ),
    "rstreams.net.dialects": Module(
        "How each broker writes addresses and filters. [Guide](../guides/brokers.md)",
        ("rstreams.net.dialects", "rstreams.net.dialects.azure"),
    ),
    "rstreams.net.cbs": Module(
        "Tokens, for peers that ask for them. [Guide](../guides/azure.md)", ("rstreams.net.cbs",)
    ),
    "rstreams.net.end_of_stream": Module(
        "How to send the end of a stream through a broker. [Guide](../guides/brokers.md)",
        ("rstreams.net.end_of_stream",),
    ),
    "rstreams.net.management": Module(
        "Management over a connection. [Guide](../guides/management.md#manage-it-while-it-runs)",
        ("rstreams.net.management",),
    ),
    "rstreams.net.rabbitmq_management": Module(
        "Queues, exchanges and bindings of RabbitMQ 4; for asyncio it is `rstreams.aio.rabbitmq_management`. "
        "[Guide](../guides/rabbitmq.md)",
        ("rstreams.net.rabbitmq_management",),
    ),
    "rstreams.node": Module(
        "A node in your program, its addresses, users and statistics. [Guide](../guides/addresses.md)",
        (
            "rstreams.node.Node",
            "rstreams.node.administration.AdministeredNode",
            "rstreams.node.Permission",
            "rstreams.node.PasswordHash",
            "rstreams.node.UserLimits",
            "rstreams.node.STATISTICS",
            "rstreams.node.Address",
            "rstreams.node.LinkRequest",
            "rstreams.node.Supply",
            "rstreams.node.NodeServices",
        ),
    ),
    "rstreams.node.config": Module(
        "A node as data, such as a config file. [Guide](../guides/node.md)", ("rstreams.node.config",)
    ),
    "rstreams.node.statistics": Module(
        "The counters of a node, from `node.statistics()` and from the address `STATISTICS`.",
        ("rstreams.node.statistics",),
    ),
    "rstreams.store": Module(
        "The store of a node, for kinds of address that remember. [Guide](../guides/store.md)",
        ("rstreams.store.repair",),
    ),
    "rstreams.cloudevents": Module(
        "CloudEvents in messages. [Guide](../guides/codecs.md#cloudevents)", ("rstreams.cloudevents",)
    ),
    "rstreams.web": Module("The counters of a node for Prometheus. [Guide](../guides/metrics.md)", ("rstreams.web",)),
    "rstreams.telemetry": Module("Traces by OpenTelemetry. [Guide](../guides/traces.md)", ("rstreams.telemetry",)),
    "rstreams.logs": Module("Events of the log. [Guide](../guides/log-events.md)", ("rstreams.logs",)),
    "rstreams.tls": Module("Contexts for TLS. [Guide](../guides/security.md)", ("rstreams.tls",)),
    "rstreams.aio": Module(
        "Connections, nodes and streams for asyncio. [Guide](../guides/asyncio.md)", ("rstreams.aio",)
    ),
    "rstreams.blocking": Module(
        "Connections and streams for threads. [Guide](../guides/asyncio.md#threads)", ("rstreams.blocking",)
    ),
    "rstreams.errors": Module("Every exception. [What to do](../guides/errors.md)", ("rstreams.errors",)),
    "rstreams.abc": Module("The protocols, for publishers, subscribers and schedulers of your own.", ("rstreams.abc",)),
    "rstreams.testing": Module("Tools for tests of streams. [Guide](../guides/testing.md)", ("rstreams.testing",)),
    "rstreams.simulation": Module(
        "Simulates whole systems of nodes, clients and programs, from one seed. [Guide](../guides/simulation.md)",
        ("rstreams.simulation",),
    ),
    "rstreams.simulation.checker": Module(
        "Judges histories of systems of messages. [Guide](../guides/histories.md)", ("rstreams.simulation.checker",)
    ),
}
"""The modules that users import from."""

_INTRODUCTION = (
    "A page for each module lists its public names with one sentence.",
    "`help(rstreams.connect)` shows the whole description.",
    "The site that `make docs` builds also shows it, below the table, and its search finds each name.",
)
_NOTE = "<!-- Written by tools/reference_page.py: change the docstrings, then run `make format`. -->"


def files() -> dict[Path, str]:
    """Return the text of every file that this tool writes."""
    pages = {PAGES / f"{module}.md": _page(module, of_it) for module, of_it in MODULES.items()}
    return {PAGES / "index.md": _index(), **pages}


def _index() -> str:
    lines = ["# Reference", "", _NOTE, "", *_INTRODUCTION, "", "| module | what it has |", "|---|---|"]
    lines += [f"| [`{module}`]({module}.md) | {of_it.text} |" for module, of_it in MODULES.items()]
    return "\n".join(lines) + "\n"


def _page(module: str, of_it: Module) -> str:
    lines = [f"# `{module}`", "", _NOTE, "", of_it.text, "", "| name | what it is |", "|---|---|"]
    operators = _pages_of_operators() if module in {"rstreams.sources", "rstreams.operators"} else {}
    for name in names_of(module):
        shown = f"[`{name}`]({operators[name]})" if name in operators else f"`{name}`"
        lines.append(f"| {shown} | {told(module, name)} |")
    for path in of_it.beside:
        place, _, name = path.rpartition(".")
        lines.append(f"| `{name}` | {told(place, name)} |")
    for path in of_it.full:
        lines += ["", f"::: {path}"]
    return "\n".join(lines) + "\n"


def _pages_of_operators() -> dict[str, str]:
    """Return the place of each source and operator in the pages about them."""
    return {name: f"../operators/{family['page']}.md#{name}" for family in families() for name in family["needs"]}


def names_of(module: str) -> list[str]:
    """Return the public names of a module."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and any(isinstance(at, ast.Name) and at.id == "__all__" for at in node.targets):
            return sorted(ast.literal_eval(node.value), key=str.lower)
    message = f"{module} has no __all__"
    raise LookupError(message)


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
    """Write the pages, or check them."""
    wanted = files()
    there = set(PAGES.glob("*.md"))
    stale = [page for page, text in wanted.items() if page not in there or page.read_text(encoding="utf-8") != text]
    left = sorted(there - set(wanted))
    if "--check" in sys.argv[1:]:
        for page in [*stale, *left]:
            print(f"{page.relative_to(ROOT)}: not as tools/reference_page.py writes it (run `make format`)")
        sys.exit(1 if stale or left else 0)
    for page in left:
        page.unlink()
    for page in stale:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(wanted[page], encoding="utf-8")


if __name__ == "__main__":
    main()

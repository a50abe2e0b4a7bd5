"""The kinds of address that a file or a request can declare, each with the method of `Node` that makes it.

The options of a kind are the parameters of that method (`plain_options`). A new kind is one line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rstreams.node.plain_options import REQUIRED, PlainOption, options_of


@dataclass(frozen=True, slots=True)
class AddressKind:
    """A kind of address.

    Attributes:
        word: Its name in texts.
        method: The name of the method of `Node` that makes one.
        named: The parameter of the method for the name of the address.
        needs_object: Whether it needs an object of Python, although each single option may be left out.
    """

    word: str
    method: str
    named: str = "name"
    needs_object: bool = False

    def options(self, node: object) -> dict[str, PlainOption]:
        """Return its options.

        Args:
            node: The node, or its class.
        """
        return options_of(getattr(node, self.method), self.named)

    def remote_options(self, node: object) -> dict[str, PlainOption] | None:
        """Return the options that a client may give: no objects of Python. None if the kind needs such an object."""
        options = self.options(node)
        if self.needs_object or any(each.default is REQUIRED and not each.is_plain for each in options.values()):
            return None
        return {name: option for name, option in options.items() if option.is_plain}

    def make(self, node: Any, name: str, options: Mapping[str, Any]) -> None:  # noqa: ANN401 - a Node, which is above
        """Make one that knows its options, except objects of Python.

        Errors: `ConfigError` for a name or an option that is not allowed.
        """
        getattr(node, self.method)(name, **options)
        known = self.options(node)
        made = node._addresses[name]  # noqa: SLF001 - some of the methods do not return it
        made.declared = {each: value for each, value in options.items() if known[each].is_plain}


KINDS: Final[Mapping[str, AddressKind]] = {
    "queues": AddressKind("queue", "queue"),
    "multicasts": AddressKind("multicast", "multicast"),
    "logs": AddressKind("log", "log"),
    "latest": AddressKind("latest", "latest"),
    "served": AddressKind("served stream", "serve", "address", needs_object=True),
    "responders": AddressKind("responding address", "respond", "address"),
}
"""The kinds, by the name of their table in a file, which is `Address.table` of their classes."""

REFERS: Final = "dead_letters"
"""The option with the name of another address, which must be made before."""

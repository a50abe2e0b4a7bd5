"""What a client declares: the options in the body of a request, in this library's words or in RabbitMQ's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rstreams._codec.types import is_whole
from rstreams._events.table import QUEUE_IN_MEMORY
from rstreams.errors import ConfigError
from rstreams.node.kinds import KINDS, AddressKind
from rstreams.node.plain_options import PlainOption

_ARGUMENTS: Final[Mapping[str, str]] = {"x-max-length": "capacity", "x-delivery-limit": "max_deliveries"}
"""RabbitMQ's arguments of a queue that have another name here."""

_QUEUE_TYPE: Final = "x-queue-type"
_QUEUE_TYPES: Final = ("classic", "quorum")
"""RabbitMQ's argument of a queue that asks for nothing, and its values."""

_NOT_ASKED: Final = ("durable", "auto_delete", "exclusive")
"""The keys of a body that RabbitMQ's clients always send; false asks for nothing."""


def body_of(method: str, body: object) -> Mapping[str, Any]:
    """Return the map in the body of a request; it is empty without one.

    Errors: `ConfigError` if the body of a declaration is no map.
    """
    if method == "PUT" and not isinstance(body, Mapping | None):
        msg = f"the body of a declaration is a map or null, not {body!r:.80}"
        raise ConfigError(msg)
    return body if isinstance(body, Mapping) else {}


def options_in(
    body: Mapping[str, Any], kind: AddressKind, known: Mapping[str, PlainOption], address: str, *, has_store: bool
) -> dict[str, Any]:
    """Return the options of an address that is declared.

    Args:
        body: The body of the declaration.
        kind: The kind of the address.
        known: The options of the kind that a client may give.
        address: The name of the address.
        has_store: Whether the node has a store.

    Errors: `ConfigError` for what the kind does not have; it tells what there is.
    """
    arguments = body.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        msg = f"arguments={arguments!r:.80}: it must be a map of options and their values"
        raise ConfigError(msg)
    asked = {str(name): value for name, value in body.items() if name != "arguments"}
    given = {name: value for name, value in asked.items() if name not in _NOT_ASKED or value is not False}
    given |= {str(name): value for name, value in arguments.items()}
    if kind is KINDS["queues"]:
        given = _of_queue(given, arguments, address, has_store=has_store)
    options: dict[str, Any] = {}
    for name, value in given.items():
        option = known.get(name)
        if option is None:
            msg = f"a {kind.word} has no option {name!r:.80}; there are {', '.join(known)}"
            if kind is KINDS["queues"]:
                msg += f"; of RabbitMQ's {_QUEUE_TYPE} ({' or '.join(_QUEUE_TYPES)}), {', '.join(_ARGUMENTS)}"
            raise ConfigError(msg)
        try:
            options[name] = option.read(value)
        except ValueError as error:
            raise ConfigError(str(error)) from None
    return options


def _of_queue(
    given: Mapping[str, Any], arguments: Mapping[str, Any], address: str, *, has_store: bool
) -> dict[str, Any]:
    """Return the options of a queue in the words of this library."""
    if given.get("auto_delete") or given.get("exclusive"):
        msg = "this node has no queues that are exclusive or delete themselves"
        raise ConfigError(msg)
    options = {_ARGUMENTS.get(name, name): value for name, value in given.items()}
    if options.get(_QUEUE_TYPE) in _QUEUE_TYPES:
        del options[_QUEUE_TYPE]
    attempts = given.get("x-delivery-limit")
    if is_whole(attempts):
        options["max_deliveries"] = attempts + 1  # RabbitMQ does not count the first one
    if given.get("durable") is True and "durable" not in arguments and not has_store:
        del options["durable"]  # RabbitMQ's clients know no other queues
        QUEUE_IN_MEMORY.tell(address, address=address)
    return options

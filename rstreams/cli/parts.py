"""The parts of the messages that `rstreams send` makes: options, some of them templates, around a body."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rstreams.cli.addresses import product_of
from rstreams.cli.exit_codes import CommandEnded, ExitCode, mistake
from rstreams.cli.formats import KEY
from rstreams.cli.templates import Template
from rstreams.errors import ConfigError
from rstreams.message import Message, encode_item

if TYPE_CHECKING:
    from rstreams import Connection

_TEXTS: Final = {
    "id": "id",
    "subject": "subject",
    "correlation_id": "correlation_id",
    "reply_to": "reply_to",
    "content_type": "content_type",
    "group": "group_id",
}
"""The options with a text, and the fields of `Message` that they are."""

_DELAY_MS: Final = ("artemis", "activemq")
_SCHEDULED: Final = ("servicebus",)

Value = Callable[[int], Any]
"""Returns a value of a message, by the number of the message."""


class Parts:
    """The parts around the bodies.

    Attributes:
        bodies: What makes the bodies of the arguments.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Read the options.

        Errors: `CommandEnded` for one that cannot be.
        """
        self._templates = not arguments.no_templates
        self._kind: str = arguments.kind
        self._delay_s: float | None = arguments.delay
        self._fixed: dict[str, Any] = {}
        self._made: dict[str, Value] = {}
        for option, field in _TEXTS.items():
            if (text := getattr(arguments, option)) is not None:
                self._put(self._fixed, self._made, field, text, f"--{option.replace('_', '-')}")
        if arguments.csv and self._kind == "bytes" and arguments.content_type is None:
            self._fixed["content_type"] = "application/json"
        self._put_header(arguments)
        self._properties, self._made_properties = self._named(arguments.property, "--property")
        self._annotations, self._made_annotations = self._named(arguments.annotation, "--annotation")
        if arguments.key is not None:
            self._put(self._annotations, self._made_annotations, KEY, arguments.key, "--key")
        self.bodies = [self._body(text) for text in arguments.body]
        self._try()

    @property
    def are_none(self) -> bool:
        """Whether a body of bytes is sent by itself."""
        parts = (self._fixed, self._made, self._properties, self._made_properties)
        return self._kind == "bytes" and not any((*parts, self._annotations, self._made_annotations, self._delay_s))

    def message(self, body: Any, number: int) -> Any:  # noqa: ANN401 - bytes or a message, of bytes or a message
        """Return the message with a body, or the envelope's message with these parts.

        Errors: `CommandEnded` for a body that cannot be.
        """
        if isinstance(body, Message):
            return body if self.are_none else replace(body, **self._fields(number, body))
        if self._kind == "bytes" and self.are_none:
            return body
        return Message(self._typed(body), **self._fields(number, Message()))

    def add_delay(self, connection: Connection) -> None:
        """Have messages kept back, in the words of the peer.

        Errors: `CommandEnded` if it keeps none back.
        """
        delay_s, name = self._delay_s, connection.dialect.name
        if delay_s is None:
            return
        if name in _DELAY_MS:
            self._annotations["x-opt-delivery-delay"] = round(delay_s * 1000)
        elif name in _SCHEDULED:
            span = timedelta(seconds=delay_s)
            self._made_annotations["x-opt-scheduled-enqueue-time"] = lambda _: datetime.now(UTC) + span
        else:
            msg = (
                f"--delay: {product_of(connection)} keeps no message back on request; --ttl, --priority and others stay"
            )
            raise CommandEnded(ExitCode.REFUSED, msg)

    # ------------------------------------------------------------------------------------------------ reading options

    def _put_header(self, arguments: argparse.Namespace) -> None:
        if arguments.ttl is not None:
            if not 0 < arguments.ttl <= 4294967.295:
                msg = f"--ttl {arguments.ttl:g}: give a number of seconds above 0, up to 4294967"
                raise mistake(msg)
            self._fixed["ttl_s"] = arguments.ttl
        if arguments.priority is not None:
            if not 0 <= arguments.priority <= 255:
                msg = f"--priority {arguments.priority}: give a number from 0 to 255; 4 is normal"
                raise mistake(msg)
            self._fixed["priority"] = arguments.priority
        if arguments.delay is not None and not (0 < arguments.delay < 1e9 and math.isfinite(arguments.delay)):
            msg = f"--delay {arguments.delay:g}: give a number of seconds above 0"
            raise mistake(msg)

    def _named(self, texts: list[str], option: str) -> tuple[dict[str, Any], dict[str, Value]]:
        fixed: dict[str, Any] = {}
        made: dict[str, Value] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or name in {"", ":"}:
                msg = f"{option} {text!r}: give NAME=TEXT, or NAME:=JSON"
                raise mistake(msg)
            if not name.endswith(":"):
                self._put(fixed, made, name, value, option)
                continue
            try:
                fixed[name[:-1]] = json.loads(value)
            except (ValueError, RecursionError) as error:
                msg = f"{option} {text!r}: what follows := is not JSON: {error}"
                raise mistake(msg) from None
        return fixed, made

    def _put(self, fixed: dict[str, Any], made: dict[str, Value], name: str, text: str, option: str) -> None:
        template = self._template(text, option)
        if template is None:
            fixed[name] = text
        else:
            made[name] = template.of

    def _template(self, text: str, option: str) -> Template | None:
        """Return a template; None if the text is the same for each message."""
        if not self._templates:
            return None
        template = Template(text, option)
        return None if template.is_plain else template

    def _try(self) -> None:
        """Make a message, so that a value that AMQP cannot carry is found before anything is sent."""
        try:
            encode_item(Message(b"", **self._fields(1, Message())))
        except ConfigError as error:
            raise mistake(str(error)) from None

    # ------------------------------------------------------------------------------------------------ making messages

    def _body(self, text: str) -> Value:
        template = self._template(text, "BODY")
        if template is None:
            fixed = text.encode(errors="surrogateescape")
            return lambda _: fixed
        return lambda number: template.of(number).encode(errors="surrogateescape")

    def _typed(self, body: Any) -> Any:  # noqa: ANN401 - any body
        if self._kind == "bytes":
            return body
        try:
            text = body.decode()
            return text if self._kind == "string" else json.loads(text)
        except UnicodeDecodeError:
            msg = "a body is not UTF-8 text; give --as bytes"
        except (ValueError, RecursionError) as error:
            msg = f"a body is not JSON: {error}; give --as bytes or --as string"
        raise mistake(msg)

    def _fields(self, number: int, message: Message) -> dict[str, Any]:
        fields = dict(self._fixed)
        for name, make in self._made.items():
            fields[name] = make(number)
        if self._properties or self._made_properties:
            fields["properties"] = {
                **message.properties,
                **self._properties,
                **{name: make(number) for name, make in self._made_properties.items()},
            }
        if self._annotations or self._made_annotations:
            fields["annotations"] = {
                **message.annotations,
                **self._annotations,
                **{name: make(number) for name, make in self._made_annotations.items()},
            }
        return fields

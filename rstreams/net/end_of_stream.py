"""The end of a stream that goes through a broker, which keeps messages and does not know an end.

The publisher's side sends one message more, a marker. The subscriber's side turns the marker back into its signal. Both
must want that, and the address must have one consumer: of several consumers only one would get the marker.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from rstreams._stages.stage import Lifted, Stage
from rstreams.abc import Publisher
from rstreams.errors import Condition, PublisherFailed, condition_of
from rstreams.message import Message
from rstreams.stream import Stream

__all__ = ["until_end_marker", "with_end_marker"]

T = TypeVar("T")

_END: Final = "rstreams:end"
_CONDITION: Final = "rstreams:condition"
_DESCRIPTION: Final = "rstreams:description"


def with_end_marker(items: Publisher[T], *, expose_errors: bool = False) -> Stream[T | Message]:
    """Emit the items of `items`, then a message that says how they ended, to be published to a broker.

    Args:
        items: A stream or other publisher, of items that `Connection.publish` takes.
        expose_errors: Whether the text of an exception of `items` goes into the marker; otherwise only that it failed.

    Demand: Passed up; the marker takes one item of it.
    Errors: Those of `items`, behind the marker that tells of them.
    Cancels: `items`; no marker is sent.
    """

    def failed(error: Exception) -> Publisher[Message]:
        condition, description, _ = condition_of(error, expose=expose_errors)
        told = {_END: "failed", _CONDITION: condition, _DESCRIPTION: description}
        return Stream.of(Message(properties=told)).concat(Stream.fail(error))

    return Stream(items).concat(Stream.of(Message(properties={_END: "completed"}))).on_error_resume(failed)


def until_end_marker(messages: Publisher[Message]) -> Stream[Message]:
    """Emit messages until the marker of `with_end_marker` comes, and end as it says.

    Args:
        messages: The messages from the broker, with their properties: `Connection.messages`.

    Demand: Passed up. The marker is accepted and not emitted.
    Errors: `PublisherFailed` with the condition and text of the marker; those of `messages`.
    Cancels: `messages`, also when the marker has come.
    Spec: AMQP 1.0 section 3.2.5 (application properties).
    """
    return Stream(Lifted(messages, _UntilEndMarker))


class _UntilEndMarker(Stage[Message, Message]):
    __slots__ = ()

    operator = "end_of_stream"

    def on_next(self, item: Message) -> None:
        if self._ended:
            return
        end = item.properties.get(_END)
        if end is None:
            self._downstream.on_next(item)
        elif end == "completed":
            self._complete()
        else:
            self._fail(PublisherFailed(*_why(item.properties)))


def _why(properties: Any) -> tuple[str, str]:  # noqa: ANN401 - any value of the sender
    condition, description = properties.get(_CONDITION), properties.get(_DESCRIPTION)
    told = condition if isinstance(condition, str) else Condition.INTERNAL_ERROR.value
    return told, description if isinstance(description, str) else ""


def __dir__() -> list[str]:
    return __all__

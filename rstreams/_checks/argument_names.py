"""Errors for arguments that do not fit: they give the right name, because other libraries use other names.

A call whose arguments do not fit fails as in Python, with a `TypeError`. `named_arguments` adds a hint to its text:

    a wrong name          the argument's name here, and its meaning
    too many arguments    the arguments that must be given by name
    a missing argument    its meaning

Type checkers do not see it. A right call costs one Python call more. Functions that are called for each item do not
have it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import wraps
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_FLOW: Final = "window capacity prefetch concurrency max_in_flight size max_items"
_TRIES: Final = "max_attempts max_deliveries count"
_MODE: Final = "settlement ack"

_WORDS: Final = (
    ("buffer buffer_size bufsize credit credits high_water high_watermark hwm limit link_credit", _FLOW),
    ("max_buffer max_length maxlen max_size maxsize queue_size qsize receiver_queue_size", _FLOW),
    ("prefetch prefetch_count prefetch_size qos", _FLOW),
    ("jobs max_concurrency max_concurrent max_parallel max_workers num_workers", "concurrency max_in_flight window"),
    ("parallelism pool_size tasks threads workers", "concurrency max_in_flight window workers"),
    (
        "connect_timeout connection_timeout duration seconds timeout timeout_ms",
        "timeout_s connect_timeout_s handshake_timeout_s span_s delay_s",
    ),
    ("heartbeat heartbeat_interval keep_alive keepalive ping_interval", "idle_timeout_s"),
    ("context ssl ssl_context ssl_options tls_context", "tls"),
    ("ack_mode acks auto_ack auto_acknowledge autoack delivery_mode guarantee manual_ack no_ack reliability", _MODE),
    ("attempts max_retries max_tries retries tries", _TRIES),
    ("delivery_limit max_delivery_count max_receive_count max_redeliveries", _TRIES),
    ("backoff base_delay delay initial_delay min_delay", "first_delay_s first_s delay_s"),
    ("max_backoff max_delay max_interval", "max_delay_s max_s"),
    ("auto_reconnect reconnect_policy retry retry_policy", "reconnect"),
    ("every interval period", "period_s span_s delay_s"),
    ("client_id connection_name container id", "container_id"),
    ("dead_letter_address dead_letter_exchange dead_letter_queue dlq dlx", "dead_letters on_failure"),
    ("error_policy errors on_error requeue", "on_failure"),
    ("decoder deserialize deserializer loads value_deserializer", "decode"),
    ("dumps encoder serialize serializer value_serializer", "encode"),
    ("filter selector where", "filters predicate"),
    ("callback cb fn func mapper on_message", "handler function predicate accumulator"),
    ("channel destination queue routing_key source subject target topic", "address name place url"),
    ("endpoint host hostname port uri", "url place"),
    ("data messages stream values", "items iterable publisher"),
    ("frame_max max_frame_size", "max_frame_bytes"),
    ("batch batch_size batching pack", "pack_items count max_items"),
    ("by key_func key_selector keyfunc", "key"),
    ("max_count n num number", "count"),
    ("init initial_value initializer start_value", "initial seed start"),
    ("application_properties attributes headers metadata", "properties"),
    ("credentials passwords user", "users"),
)
_OURS: Final = {word: ours.split() for words, ours in _WORDS for word in words.split()}
"""For each word of other libraries, the names here: the first one that the function has."""

_CREDENTIALS: Final = "user and password stand in the url: 'amqp://user:password@host'"
_DURABLE: Final = (
    "`publish`, `sender`, and queues and multicasts of a node with a store take durable=True; a log is in the store if "
    "the node has one; see docs/guides/durable.md"
)
_OPEN: Final = "`async with stream.open(window=1) as items:` requests one item at a time"
_CONCURRENCY: Final = "`stream.map_async(function, concurrency=8)` works on several items at once"
_WITHOUT: Final = {
    "concurrency": _CONCURRENCY,
    "credentials": _CREDENTIALS,
    "durable": _DURABLE,
    "max_in_flight": _CONCURRENCY,
    "password": _CREDENTIALS,
    "persistent": _DURABLE,
    "prefetch": _OPEN,
    "timeout": "a time limit is put around the call: `with trio.fail_after(seconds):`",
    "user": _CREDENTIALS,
    "username": _CREDENTIALS,
    "window": _OPEN,
    "workers": _CONCURRENCY,
}
"""Hints for arguments that do not exist here."""

_OF_STREAMS: Final = {name for name, hint in _WITHOUT.items() if hint in {_OPEN, _CONCURRENCY}}
"""Those that have a hint only where a stream is called."""

_MORE: Final = {"Stream.rx": "; several operators make one: `stream.rx(reactivex.compose(first, second))`"}
"""Hints for calls with too many arguments."""


def named_arguments(function: F, called: str = "", documented: str = "", of: type | None = None) -> F:
    """Return `function` with a hint in the `TypeError` of a call whose arguments do not fit.

    Errors of the function itself are passed on unchanged.

    Args:
        function: A function without `**` parameters.
        called: The name that the user calls; the function's own by default.
        documented: The text that describes the arguments; the function's docstring by default.
        of: The class whose method it is, for an error that says that it was called on the class itself.
    """
    text = documented or inspect.getdoc(function) or ""
    name = called or function.__qualname__

    def better(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
        if of is not None and not (args and isinstance(args[0], of)):
            how = f"`stream.{function.__name__}(...)`"
            return TypeError(f"{name}() is called on a stream, as in {how}, not on the class")
        return _better(name, function, text, error, (args, kwargs)) if isinstance(error, TypeError) else error

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the arguments of the function
            try:
                return await function(*args, **kwargs)
            except (TypeError, AttributeError) as error:
                said = better(error, args, kwargs)
                if said is error:
                    raise
            raise said

        return call_async  # type: ignore[return-value] # it has the same signature

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the arguments of the function
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError) as error:  # the second: the first argument is no stream
            said = better(error, args, kwargs)
            if said is error:
                raise
        raise said

    return call  # type: ignore[return-value] # it has the same signature


def name_arguments(called: str, *classes: type, every: bool = False) -> None:
    """Apply `named_arguments` to the public methods and the constructor of classes, if they have options.

    The constructor of a dataclass is always included.

    Args:
        called: The user's name for the class.
        *classes: The class and its bases.
        every: Also to methods without options, and with an error for a method that is called on the class itself.
    """
    for each in classes:
        for name, member in list(vars(each).items()):
            function = getattr(member, "__func__", member)
            if not inspect.isfunction(function) or (name.startswith("_") and name != "__init__"):
                continue
            constructs = name == "__init__" and is_dataclass(each)
            has_options = any(option.default is not option.empty for option in _options(function).values())
            if not constructs and not has_options and not (every and function is member and name != "subscribe"):
                continue
            if any(option.kind is option.VAR_KEYWORD for option in inspect.signature(function).parameters.values()):
                continue  # it checks its arguments itself, by `require_argument_names`
            if name == "__init__":
                wrapped = named_arguments(function, called, inspect.getdoc(each) or "")
            else:
                wrapped = named_arguments(
                    function, f"{called}.{name}", of=each if every and function is member else None
                )
            setattr(each, name, type(member)(wrapped) if function is not member else wrapped)


def require_argument_names(
    called: str, given: Iterable[str], allowed: Collection[str], *like: Callable[..., Any]
) -> None:
    """Raise `TypeError`, as Python does, for a name that is not allowed; the text gives the right one.

    Args:
        called: The name that the user calls.
        given: The names that are not arguments of the function itself.
        allowed: The names that are allowed.
        *like: The functions that have these arguments and describe them.
    """
    for name in given:
        if name not in allowed:
            options = {option.name: option for each in like for option in _options(each).values()}
            raise _wrong_name(called, name, options, "\n".join(inspect.getdoc(each) or "" for each in like))


def _better(
    called: str,
    function: Callable[..., Any],
    documented: str,
    error: TypeError,
    given: tuple[tuple[Any, ...], dict[str, Any]],
) -> TypeError:
    """Return the error of a call with arguments that do not fit, with a hint; `error` itself if they fit."""
    options = _options(function)
    args, kwargs = given
    wrong = next((given for given in kwargs if given not in options), None)
    if wrong is not None:
        return _wrong_name(called, wrong, options, documented)
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError as misfit:
        return _too_many(called, options.values()) if "too many" in str(misfit) else error
    missing = [each.name for each in options.values() if each.default is each.empty and each.name not in bound]
    return _incomplete(called, error, missing, documented) if missing else error


def _wrong_name(called: str, wrong: str, options: Mapping[str, inspect.Parameter], documented: str) -> TypeError:
    text = f"{called}() got an unexpected keyword argument {wrong!r}"
    ours = _ours(wrong, options)
    if ours is None:
        hint = "" if wrong in _OF_STREAMS and "Stream" not in called else _WITHOUT.get(wrong)
        return TypeError(f"{text}; {hint or 'it has ' + (', '.join(options) or 'none')}")
    told, default = _described(documented, ours), options[ours].default
    shown = "" if default is inspect.Parameter.empty else f" (default {default!r:.40})"
    return TypeError(f"{text}; it is called {ours!r} here{told and f': {told}'}{shown}")


def _too_many(called: str, options: Iterable[inspect.Parameter]) -> TypeError:
    by_name = ", ".join(option.name for option in options if option.kind is option.KEYWORD_ONLY)
    told = (by_name and f"; by name it takes {by_name}") + _MORE.get(called, "")
    return TypeError(f"{called}() got too many positional arguments{told}")


def _incomplete(called: str, error: TypeError, missing: Iterable[str], documented: str) -> TypeError:
    told = [f"; {name}: {text}" for name in missing if (text := _described(documented, name))]
    return TypeError(f"{called}() {str(error).partition('() ')[2]}{''.join(told)}")


def _ours(wrong: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is meant."""
    word = wrong.lower()
    known = next((name for name in _OURS.get(word, []) if name in names), None)
    if known is not None or word in _WITHOUT:
        return known
    with_unit = next((name for name in names if name.rpartition("_")[0] == word.removesuffix("_ms")), None)
    return with_unit or next(iter(get_close_matches(word, names, n=1, cutoff=0.7)), None)


def _described(documented: str, name: str) -> str:
    """Return the first sentence of a docstring about an argument."""
    found = re.search(rf"^ +{name}: (.+(?:\n {{8,}}\S.*)*)", documented, re.MULTILINE)
    sentence = " ".join(found[1].split()) if found else ""
    return re.split(r"(?<=[a-z)\]`])[.;] ", sentence, maxsplit=1)[0].rstrip(".")


def _options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that can be given by name, except `self` and `cls`."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    options = inspect.signature(function).parameters.values()
    return {option.name: option for option in options if option.kind in kinds and option.name not in {"self", "cls"}}

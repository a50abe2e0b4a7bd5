"""Names of other libraries: the error for such a name says what is here in its place."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

import rstreams
import rstreams.blocking
from rstreams import Stream
from rstreams._checks.other_names import CLASSES, OURS, PUSHED
from rstreams.push import Latest, Multicast, Replay, Unicast

MODULES = [
    "rstreams",
    "rstreams.aio",
    "rstreams.blocking",
    "rstreams.operators",
    "rstreams.push",
    "rstreams.sources",
    "rstreams.testing",
]
BLOCKING: Any = object.__new__(rstreams.blocking.BlockingStream)
PUSHING: list[Any] = [Unicast(), Multicast(), Replay(1), Latest()]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("theirs", ["Flux", "Observable", "StepVerifier", "Subject", "TestScheduler"])
def test_a_class_of_another_library(module: str, theirs: str) -> None:
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute '{theirs}'; here it is rstreams"):
        getattr(import_module(module), theirs)
    with pytest.raises(ImportError, match=f"cannot import name '{theirs}' from '{module}'; here it is rstreams"):
        exec(f"from {module} import {theirs}")  # noqa: S102 - the statement itself is the matter


@pytest.mark.parametrize("theirs", sorted(CLASSES))
def test_the_class_in_its_place_is_there(theirs: str) -> None:
    for path in re.findall(r"rstreams[.\w]*\w", CLASSES[theirs]):
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name) or import_module(path), path


@pytest.mark.parametrize("module", MODULES)
def test_an_operator_of_another_library_or_of_a_stream(module: str) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'tap'; in Stream it is do_on_next$"):
        getattr(import_module(module), "tap")  # noqa: B009 - that it is missing is the matter
    with pytest.raises(AttributeError, match=r"no attribute 'forEach'; it is a method: Stream\.for_each$"):
        getattr(import_module(module), "forEach")  # noqa: B009 - likewise


@pytest.mark.parametrize("module", MODULES)
def test_a_name_that_nobody_has_gets_no_hint(module: str) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        getattr(import_module(module), "nonsense")  # noqa: B009 - likewise
    with pytest.raises(ImportError, match=r"^cannot import name 'nonsense' from 'rstreams[^;]*$"):
        exec(f"from {module} import nonsense")  # noqa: S102 - likewise


@pytest.mark.parametrize("asked", [Stream, Stream.range(3), BLOCKING], ids=["Stream", "a stream", "BlockingStream"])
@pytest.mark.parametrize(
    ("theirs", "ours"), [("flatMap", "flat_map"), ("onBackpressureDrop", "on_overflow_drop"), ("mergeMap", "flat_map")]
)
def test_a_name_in_camel_case(asked: Any, theirs: str, ours: str) -> None:  # noqa: ANN401 - asked wrongly
    with pytest.raises(AttributeError, match=rf"no attribute '{theirs}'; here it is {ours}$"):
        getattr(asked, theirs)


@pytest.mark.parametrize("theirs", sorted(OURS))
def test_a_blocking_stream_answers_as_a_stream(theirs: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{theirs}'; here it is "):
        getattr(BLOCKING, theirs)


@pytest.mark.parametrize("pushing", PUSHING, ids=[type(each).__name__ for each in PUSHING])
@pytest.mark.parametrize("theirs", sorted(PUSHED))
def test_a_method_of_a_subject(pushing: Any, theirs: str) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(AttributeError, match=rf"no attribute '{theirs}'; here it is {PUSHED[theirs]}$"):
        getattr(pushing, theirs)
    ours = re.split("[ ,]", PUSHED[theirs])[0]
    assert hasattr(rstreams if ours == "Stream" else Latest if ours != "send" else Multicast, ours)


@pytest.mark.parametrize("pushing", PUSHING, ids=[type(each).__name__ for each in PUSHING])
@pytest.mark.parametrize("operator", ["map", "for_each", "open", "to_list", "mergeWith"])
def test_a_push_source_has_no_operators(pushing: Any, operator: str) -> None:  # noqa: ANN401 - likewise
    kind = type(pushing).__name__
    told = (
        "in Stream it is merge" if operator == "mergeWith" else rf"a stream of it has that: Stream\({kind.lower()}\)\."
    )
    with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute '{operator}'; {told}"):
        getattr(pushing, operator)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = pushing.nonsense


@pytest.mark.parametrize("theirs", ["close", "disconnect", "dispose", "unsubscribe"])
def test_a_connection_of_a_shared_run_is_cancelled(theirs: str) -> None:
    connection: Any = Stream.range(3).publish().connect()
    with pytest.raises(AttributeError, match=f"no attribute '{theirs}'; here it is cancel$"):
        getattr(connection, theirs)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = connection.nonsense

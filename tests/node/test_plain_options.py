"""The options of a function as a file gives them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from rstreams.node.plain_options import REQUIRED, options_of, shown_options


class Example:
    """A class whose method has an option of each kind."""

    def make(  # noqa: PLR0917
        self,
        name: str,
        store: str | Path | None = None,
        place: str | os.PathLike[str] = "x",
        count: int = 5,
        most: int | None = 7,
        delay_s: float = 0.5,
        flag: bool = False,  # noqa: FBT001, FBT002
        text: str | None = None,
        mode: Literal["always", "never"] = "always",
        key: Callable[[Any], object] | None = None,
    ) -> None:
        """Make one."""


OPTIONS = options_of(Example.make, "name")


def test_the_options_are_those_of_the_function() -> None:
    assert list(OPTIONS) == ["store", "place", "count", "most", "delay_s", "flag", "text", "mode", "key"]
    assert list(options_of(Example().make)) == ["name", *OPTIONS]
    assert options_of(Example.make)["name"].default is REQUIRED
    assert [name for name, option in OPTIONS.items() if option.is_path] == ["store", "place"]
    assert [name for name, option in OPTIONS.items() if not option.is_plain] == ["key"]


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("count", 3, 3),
        ("most", "none", None),
        ("delay_s", 3, 3),
        ("delay_s", 2.5, 2.5),
        ("flag", True, True),
        ("text", "none", "none"),
        ("mode", "never", "never"),
        ("store", "folder", "folder"),
        ("key", "os.path:join", os.path.join),
    ],
)
def test_what_an_option_takes(name: str, value: object, read: object) -> None:
    assert OPTIONS[name].read(value) == read


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("count", "none", "count = 'none': it must be a whole number"),
        ("count", 2.0, "it must be a whole number"),
        ("count", True, "it must be a whole number"),
        ("most", "many", 'it must be a whole number or "none"'),
        ("delay_s", "soon", "it must be a number"),
        ("delay_s", False, "it must be a number"),
        ("flag", 1, "it must be true or false"),
        ("text", 5, "it must be a text"),
        ("text", ["a"], "it must be a text"),
        ("mode", "sometimes", "it must be 'always' or 'never'"),
        ("mode", ["always"], "it must be 'always' or 'never'"),
        ("key", "os.path.join", 'it must be an object of Python, as "module:name"'),
        ("key", "os:no_such_name", "it cannot be imported: AttributeError"),
        ("key", ":x", "it cannot be imported: ValueError"),
    ],
)
def test_what_it_does_not_take(name: str, value: object, told: str) -> None:
    with pytest.raises(ValueError, match="^" + name) as caught:
        OPTIONS[name].read(value)
    assert told in str(caught.value)


def test_all_options_are_shown_with_their_values() -> None:
    shown = shown_options(OPTIONS, {"count": 9, "key": os.path.join})
    assert "count=9, most=7" in shown
    assert shown.endswith("mode='always', key=join")

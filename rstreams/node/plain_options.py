"""The options of a function as a file can give them, described by the function itself.

The names, the types and the defaults are those of the function's parameters. Therefore a new option of `Node.queue` is
an option of the file, of `--check` and of `$management` without a further line.

    a number, a text, true or false    as such
    a Literal                          one of its texts
    None                               the text "none", if the option takes no other text
    a function, a publisher, ...       "module:name", an object of a Python module

The function checks the values once more: here only their types are checked.
"""

from __future__ import annotations

import importlib
import inspect
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from rstreams._checks.refusals import shown

REQUIRED: Final = inspect.Parameter.empty
"""The default of an option that must be given."""

_PLAIN: Final = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class PlainOption:
    """One option.

    Attributes:
        name: Its name.
        default: Its default; `REQUIRED` if it must be given.
        plain: The plain types that it takes.
        choices: The texts that it takes, if these are all.
        may_be_none: Whether it takes None.
        is_path: Whether its text is the path of a file or a folder.
    """

    name: str
    default: Any
    plain: tuple[type, ...]
    choices: tuple[str, ...] = ()
    may_be_none: bool = False
    is_path: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it takes no object of Python."""
        return bool(self.plain or self.choices)

    @property
    def allowed(self) -> str:
        """The values that it takes, as text."""
        if self.choices:
            return " or ".join(repr(each) for each in self.choices)
        words = [_PLAIN[each] for each in self.plain] or ['an object of Python, as "module:name"']
        return " or ".join(words + (['"none"'] if self.may_be_none and str not in self.plain and self.plain else []))

    def read(self, value: object) -> Any:  # noqa: ANN401 - a value of any of the types
        """Return the value for the function.

        Errors: `ValueError` with a text that says what is allowed.
        """
        if self.choices:
            if value in self.choices:
                return value
        elif not self.plain:
            if isinstance(value, str) and ":" in value:
                return _object(self.name, value)
        elif value == "none" and self.may_be_none and str not in self.plain:
            return None
        elif isinstance(value, bool):
            if bool in self.plain:
                return value
        elif isinstance(value, self.plain) or (isinstance(value, int) and float in self.plain):
            return value
        msg = f"{self.name} = {shown(value)}: it must be {self.allowed}"
        raise ValueError(msg)


def options_of(function: Callable[..., object], *without: str) -> dict[str, PlainOption]:
    """Return the options of a function by name: its keyword parameters, and those that must be given.

    Args:
        function: The function, or a method of a class.
        without: Parameters that are no options.
    """
    hints = get_type_hints(function)
    return {
        name: _option(parameter, hints.get(name, Any))
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in {"self", *without}
    }


def _option(parameter: inspect.Parameter, hint: object) -> PlainOption:
    kinds = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    choices = tuple(str(each) for kind in kinds if get_origin(kind) is Literal for each in get_args(kind))
    plain = tuple(kind for kind in kinds if isinstance(kind, type) and kind in _PLAIN)
    is_path = any(kind is Path or os.PathLike in {kind, get_origin(kind)} for kind in kinds)
    return PlainOption(parameter.name, parameter.default, plain, choices, type(None) in kinds, is_path)


def _object(name: str, place: str) -> object:
    """Return the object at "module:name".

    Errors: `ValueError` if there is none.
    """
    module, _, path = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        msg = f"{name} = {place!r}: it cannot be imported: {type(error).__name__}: {error}"
        raise ValueError(msg) from error
    return found


def shown_options(options: Mapping[str, PlainOption], given: Mapping[str, object]) -> str:
    """Return all options with their values, as text."""
    values = {name: given.get(name, option.default) for name, option in options.items()}
    return ", ".join(f"{name}={_shown(value)}" for name, value in values.items())


def _shown(value: object) -> str:
    name = getattr(value, "__name__", "") if callable(value) else ""
    return name or shown(value)

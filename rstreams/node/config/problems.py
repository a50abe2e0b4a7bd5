"""What is wrong in a config file, gathered while it is read: each problem with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rstreams._checks.refusals import shown
from rstreams.errors import ConfigError
from rstreams.node.config.toml_lines import Path, line_of
from rstreams.node.plain_options import REQUIRED, PlainOption


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file.

    Attributes:
        file: The file.
        line: The line, counted from 1; None if it is about the whole file.
        text: What is wrong, and what is allowed.
    """

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        """Return it as compilers do: file, line, text."""
        return f"{self.file}: {self.text}" if self.line is None else f"{self.file}:{self.line}: {self.text}"


class BrokenConfig(ConfigError):
    """A config file that cannot be used.

    Attributes:
        problems: All that is wrong, in the order of the lines.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Name the first problem, and how many more there are."""
        self.problems = tuple(sorted(problems, key=lambda each: each.line or 0))
        more = len(self.problems) - 1
        rest = (
            f" (and {more} more: `rstreams node --config {self.problems[0].file} --check` shows them)" if more else ""
        )
        super().__init__(f"{self.problems[0]}{rest}")


class Problems:
    """The problems of one file.

    Args:
        file: The file.
        lines: The line of each key.
    """

    def __init__(self, file: str, lines: Mapping[Path, int]) -> None:
        self.found: list[Problem] = []
        self._file = file
        self._lines = lines

    def add(self, path: Path, text: str) -> None:
        """Note a problem of the value at a path."""
        self.found.append(Problem(self._file, line_of(self._lines, path), " ".join(text.split())))

    @contextmanager
    def noting(self, path: Path, options: Iterable[str] = ()) -> Iterator[None]:
        """Note an error of the block about an option, at the line of the option of the table that its text names."""
        try:
            yield
        except (ConfigError, TypeError) as error:
            text = str(error)
            named = _named(text, options)
            self.add(path if named is None else (*path, named), text)

    def table(self, path: Path, value: object, allowed: Iterable[str] | None = None) -> dict[str, Any]:
        """Return a table; keys that are not allowed are noted and left out."""
        if not isinstance(value, dict):
            self.add(path, f"{_name(path)} = {shown(value)}: it must be a table")
            return {}
        if allowed is None:
            return value
        names = list(allowed)
        for key in value:
            if key not in names:
                near = get_close_matches(key, names, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
                self.add((*path, key), f"{_name(path)} has no {key!r}; {hint}")
        return {key: each for key, each in value.items() if key in names}

    def tables(self, path: Path, value: object) -> list[tuple[Path, object]]:
        """Return the parts of an array of tables, each with its path."""
        if not isinstance(value, list):
            self.add(path, f"{_name(path)} must be a list of tables: [[{_name(path)}]]")
            return []
        return [((*path, number), each) for number, each in enumerate(value)]

    def texts(self, path: Path, value: object) -> list[str] | None:
        """Return a text or a list of texts as a list."""
        several = [value] if isinstance(value, str) else value
        if isinstance(several, list) and several and all(isinstance(each, str) and each for each in several):
            return several
        self.add(path, f"{path[-1]} = {shown(value)}: it must be a text or a list of texts")
        return None

    def options(
        self, path: Path, value: object, options: Mapping[str, PlainOption], try_together: Callable[..., object]
    ) -> dict[str, Any]:
        """Return the options in a table; those that are not allowed are noted and left out.

        Args:
            path: The table.
            value: The table's value.
            options: The options.
            try_together: Called with the options; raises `ConfigError` for one that is not allowed.
        """
        read: dict[str, Any] = {}
        for name, given in self.table(path, value, options).items():
            try:
                read[name] = options[name].read(given)
            except ValueError as error:
                self.add((*path, name), str(error))
        required = {name for name, option in options.items() if option.default is REQUIRED}
        if isinstance(value, dict):
            for name in required - value.keys():
                self.add(path, f"{_name(path)} has no {name!r}, which must be given")
        if required - read.keys():
            return read
        mistyped = value.keys() & options.keys() - read.keys() if isinstance(value, dict) else set()
        if not any(bool in options[name].plain or not options[name].is_plain for name in mistyped):
            self._try(path, read, options, required, try_together)
        return read

    def _try(
        self,
        path: Path,
        read: Mapping[str, Any],
        options: Mapping[str, PlainOption],
        required: Collection[str],
        try_together: Callable[..., object],
    ) -> None:
        """Note the options that are not allowed, one after another: each is left out when the others are tried."""
        left = dict(read)
        while True:
            try:
                try_together(**left)
            except (ConfigError, TypeError) as error:
                text = str(error)
            else:
                return
            wrong = _named(text, left) or (next(iter(required)) if len(required) == 1 else None)
            self.add(path if wrong is None else (*path, wrong), text)
            if wrong is None or wrong in required or bool in options[wrong].plain or not options[wrong].is_plain:
                return  # the others may depend on it
            del left[wrong]


def _named(text: str, options: Iterable[str]) -> str | None:
    """Return the option that a text names first, as in `capacity=0`."""
    places = {name: found.start() for name in options if (found := re.search(rf"(?<!\w){name}=", text))}
    return min(places, key=places.__getitem__, default=None)


def _name(path: Path) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str)) or "the file"

"""Tokens for peers that let links in by them, such as Azure: from a connection string, or from a function."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rstreams.errors import ConfigError
from rstreams_spark._given import Given, Secret

if TYPE_CHECKING:
    from rstreams.net.cbs import SharedAccessKey, TokenSource


@dataclass(frozen=True)
class Tokens:
    """Where tokens come from; one of the two is given.

    Attributes:
        connection_string: The connection string of Azure, which has the key that signs tokens.
        function: `package.module:function`, the name of a function that returns a `rstreams.net.cbs.Token`.
    """

    connection_string: Secret | None = None
    function: str | None = None

    @classmethod
    def parse(cls, given: Given) -> Tokens | None:
        """Read the options; None if there are none."""
        string = given.secret("connectionString")
        function = given.optional("tokenFunction", _FUNCTION)
        if string is not None and function is not None:
            given.refuse(f"options {string.name} and tokenFunction: only one of them may be given")
        if string is None and function is None:
            return None
        tokens = cls(string, None if string is not None else function)
        given.attempt(tokens.source, None)
        return tokens

    def source(self) -> TokenSource:
        """Return what makes tokens, for `connect`.

        Errors: `ConfigError` naming the option, and never a part of the key.
        """
        return self.key() if self.function is None else _function_named(self.function)

    def key(self) -> SharedAccessKey:
        """Return the key in the connection string.

        Errors: As `source`.
        """
        from rstreams.net.cbs import SharedAccessKey

        assert self.connection_string is not None, "it is given"
        try:
            return SharedAccessKey.from_connection_string(self.connection_string.read())
        except ConfigError as error:
            told = str(error)
            msg = told if told.startswith("option ") else f"option {self.connection_string.name}: {told}"
            raise ConfigError(msg) from None

    def without_value(self) -> Tokens:
        """Return the same without a connection string that is given itself."""
        string = self.connection_string
        return replace(self, connection_string=None if string is None else string.without_value())


_FUNCTION = "package.module:function, the name of a function that returns a rstreams.net.cbs.Token"


def _function_named(name: str) -> Any:  # noqa: ANN401 - a `TokenSource`
    module, colon, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function) if colon and module and function else None
    except (ImportError, AttributeError) as error:
        msg = f"option tokenFunction={name!r}: {error}; the module must be installed for Spark's Python workers"
        raise ConfigError(msg) from None
    if not callable(found):
        msg = f"option tokenFunction={name!r}: must be {_FUNCTION}"
        raise ConfigError(msg)
    return found

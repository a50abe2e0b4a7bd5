"""The options of the column `body`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rstreams_spark._given import Given

BodyKind = Literal["binary", "string", "json", "avro"]
Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]

_BODY_KINDS: Final[Mapping[str, BodyKind]] = {"binary": "binary", "string": "string", "json": "json", "avro": "avro"}
_MODES: Final[Mapping[str, Mode]] = {
    "permissive": "PERMISSIVE",
    "dropmalformed": "DROPMALFORMED",
    "failfast": "FAILFAST",
}


@dataclass(frozen=True)
class BodyFormat:
    """What the column `body` has, and what becomes of a body that is not of this format.

    Attributes:
        kind: The format.
        schema: The fields of a JSON body, in Spark's DDL; None: they are in the schema of the stream. Or the schema of
            an Avro body, as JSON.
        mode: What becomes of a malformed body, as Spark's own sources have it.
        corrupt_column: The column for the bytes of a malformed body; None: there is no such column.
    """

    kind: BodyKind = "binary"
    schema: str | None = None
    mode: Mode = "PERMISSIVE"
    corrupt_column: str | None = None

    @classmethod
    def parse(cls, given: Given) -> BodyFormat:
        """Read the options of the body."""
        made = cls(
            kind=given.one_of("bodyFormat", _BODY_KINDS, cls.kind),
            schema=given.optional("bodySchema", "the fields of the body, such as 'station string, celsius double'"),
            mode=given.one_of("mode", _MODES, cls.mode),
            corrupt_column=given.optional("columnNameOfCorruptRecord", "the name of a column"),
        )
        if made.schema is not None and made.kind not in {"json", "avro"}:
            given.refuse(f"option bodySchema: allowed only with bodyFormat=json or avro, not with {made.kind}")
        if made.kind == "avro" and made.schema is None:
            given.refuse("option bodySchema is missing: bodyFormat=avro needs the schema of the body, as JSON")
        if made.kind == "binary":
            for name in ("mode", "columnNameOfCorruptRecord"):
                if given.has(name):
                    given.refuse(
                        f"option {name}: allowed only with bodyFormat=string, json or avro; every body is a binary"
                    )
        elif made.corrupt_column is not None and made.mode != "PERMISSIVE":
            given.refuse(f"option columnNameOfCorruptRecord: allowed only with mode=PERMISSIVE, not with {made.mode}")
        return made

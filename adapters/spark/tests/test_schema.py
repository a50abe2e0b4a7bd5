from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from rstreams_spark._options import BodyFormat
from rstreams_spark._schema import (
    ALL_COLUMNS,
    SOURCE_SCHEMA,
    check_sink_schema,
    check_source_schema,
    source_schema,
    spooled_columns,
)

from rstreams.errors import ConfigError


def test_the_users_schema_may_only_be_the_sources_own() -> None:
    check_source_schema(SOURCE_SCHEMA, BodyFormat())
    check_source_schema(StructType().add("annotations", MapType(StringType(), StringType())), BodyFormat())
    for column, text in [
        (StructType().add("body", StringType()), "no column body string; it has it with type binary. Leave .schema("),
        (StructType().add("boby", StringType()), "no column boby string; it has one of body, address, message_id, "),
    ]:
        with pytest.raises(ConfigError) as caught:
            check_source_schema(column, BodyFormat())
        assert str(caught.value).startswith(f"schema '{column.simpleString()}': the rstreams source has {text}")


def test_the_body_has_the_type_of_its_format() -> None:
    body = StructType().add("station", StringType())
    check_source_schema(StructType().add("body", StringType()), BodyFormat("string"))
    check_source_schema(
        StructType().add("body", body).add("bad", BinaryType()), BodyFormat("json", corrupt_column="bad")
    )
    for schema, kind in [
        (StructType().add("body", BinaryType()), "string"),
        (StructType().add("body", body), "binary"),
    ]:
        with pytest.raises(ConfigError, match="the rstreams source has no column body"):
            check_source_schema(schema, BodyFormat(kind))  # type: ignore[arg-type]


def test_the_schema_has_the_columns_that_are_named() -> None:
    assert source_schema(None, BodyFormat()) == SOURCE_SCHEMA
    assert source_schema(["body", "priority"], BodyFormat("string", corrupt_column="bad")) == (
        StructType().add("body", StringType()).add("priority", IntegerType()).add("bad", BinaryType())
    )
    json = BodyFormat("json", "station string, at timestamp", corrupt_column="bad")
    assert source_schema(["message_id", "body"], json) == (
        "`message_id` string, `body` struct<station string, at timestamp>, `bad` binary"
    )
    assert source_schema(["message_id"], BodyFormat("json")) == StructType().add("message_id", StringType())
    with pytest.raises(ConfigError, match=r"^option bodySchema is missing: bodyFormat=json needs"):
        source_schema(None, BodyFormat("json"))


def test_batches_on_disk_have_what_the_columns_are_made_of() -> None:
    names = [column.name for column in spooled_columns(["sequence_number", "body"])]
    assert names == ["body", "message_id", "delivery_count", "annotations"]


@pytest.mark.parametrize("body", [BinaryType(), StringType()])
def test_the_sink_takes_its_columns_in_any_order(body: DataType) -> None:
    columns = [
        StructType().add(name, kind).fields[0]
        for name, kind in {
            "properties": MapType(StringType(), StringType(), valueContainsNull=False),
            "body": body,
            "creation_time": TimestampType(),
            "message_id": StringType(),
            "subject": StringType(),
            "content_type": StringType(),
            "address": StringType(),
        }.items()
    ]
    check_sink_schema(StructType(columns), address_given=False)


def test_the_sink_takes_what_the_source_gives() -> None:
    check_sink_schema(SOURCE_SCHEMA, address_given=True)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("body", IntegerType(), "column body has type int: must be binary or string"),
        ("message_id", LongType(), "column message_id has type bigint: must be string"),
        ("creation_time", TimestampNTZType(), "column creation_time has type timestamp_ntz: must be timestamp"),
        ("properties", MapType(StringType(), LongType()), "column properties has type map<string,bigint>: must be "),
        ("tags", ArrayType(StringType()), "column tags: the rstreams sink takes body, address, message_id, subject, "),
    ],
)
def test_a_wrong_column_is_named_with_its_type_and_what_is_allowed(name: str, kind: DataType, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_sink_schema(StructType().add(name, kind), address_given=True)
    assert str(caught.value).startswith(text)


def test_a_missing_body_or_address_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        check_sink_schema(StructType().add("subject", StringType()), address_given=True)
    assert str(caught.value) == ("column body is missing (the columns are subject): it must be binary or string")
    with pytest.raises(ConfigError) as caught:
        check_sink_schema(StructType().add("body", StringType()), address_given=False)
    assert str(caught.value) == (
        "neither option address nor column address is given: one of them must say where to send to"
    )


def test_the_guide_has_every_column() -> None:
    for page in ("spark-source.md", "spark-sink.md"):
        guide = (Path(__file__).parents[3] / "docs" / "guides" / page).read_text("utf-8")
        section = guide.partition("## Columns")[2].partition("\n## ")[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(ALL_COLUMNS)

from __future__ import annotations

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
from rstreams_spark._schema import (
    SOURCE_SCHEMA,
    check_sink_schema,
    check_source_schema,
)

from rstreams.errors import ConfigError


def test_the_users_schema_may_only_be_the_sources_own() -> None:
    check_source_schema(SOURCE_SCHEMA)
    with pytest.raises(ConfigError) as caught:
        check_source_schema(StructType().add("body", StringType()))
    assert str(caught.value).startswith(
        "schema 'struct<body:string>': the rstreams source always has struct<body:binary,address:string,"
    )


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
    assert str(caught.value) == ("column body is missing (there are subject): it must be there, as binary or string")
    with pytest.raises(ConfigError) as caught:
        check_sink_schema(StructType().add("body", StringType()), address_given=False)
    assert str(caught.value) == (
        "neither option address nor column address is given: one of them must say where to send to"
    )

"""What Spark does to find a data source by name, without Spark."""

from __future__ import annotations

import subprocess
import sys

import pyspark_rstreams
import pytest
from pyspark.sql.datasource import DataSource
from rstreams_spark import RStreamsDataSource


def test_the_module_spark_looks_for_shows_one_data_source() -> None:
    shown = [value for value in vars(pyspark_rstreams).values() if isinstance(value, type)]
    assert shown == [RStreamsDataSource]
    assert issubclass(pyspark_rstreams.DefaultSource, DataSource)
    assert pyspark_rstreams.DefaultSource.name() == "rstreams"


@pytest.mark.slow
def test_looking_it_up_loads_neither_the_network_nor_arrow() -> None:
    code = "import pyspark_rstreams, sys; print(*{'trio', 'pyarrow', 'proton', 'rstreams'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

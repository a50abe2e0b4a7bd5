"""What a Python worker of Spark loads for a task."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from rstreams_spark._schema import SOURCE_SCHEMA
from rstreams_spark._spool import Spool
from rstreams_spark.source import RStreamsDataSource

from adapters.spark.tests.played_link import record_batch_of
from rstreams.message import Message

READ = """
import pickle, sys
reader, part = pickle.load(sys.stdin.buffer)
print(sum(batch.num_rows for batch in reader.read(part)))
print(*{'trio', 'proton', 'rstreams.net', 'rstreams.node'} & set(sys.modules))
"""


@pytest.mark.slow
def test_reading_a_batch_of_a_queue_loads_neither_the_network_nor_the_node(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, "a")
    spool.write(0, [record_batch_of([Message(body=b"1"), Message(body=b"2")])])
    (part,) = spool.partitions(0, 2) or []
    reader = RStreamsDataSource({"url": "amqp://h", "address": "a"}).streamReader(SOURCE_SCHEMA)
    done = subprocess.run(
        [sys.executable, "-c", READ], input=pickle.dumps((reader, part)), capture_output=True, check=True
    )
    spool.close()
    assert done.stdout.decode().splitlines() == ["2", ""]

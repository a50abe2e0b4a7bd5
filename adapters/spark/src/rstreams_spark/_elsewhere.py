"""Names of other connectors' options, and what takes their place here.

Names are in lower case, as Spark gives them. The guide `docs/guides/spark-connectors.md` has the same table.
"""

from __future__ import annotations

from typing import Final

_START: Final = "use startingOffsets or startingTimestamp, for a log"
_CREDIT: Final = "use maxMessagesPerTrigger: the size of a batch is the credit of the link"
_LARGEST_BATCH: Final = "use maxMessagesPerTrigger"
_ADDRESS: Final = "use address"
_URL: Final = "use url"
_PATH: Final = "use address in place of a path"

SOURCE_ELSEWHERE: Final = {
    "maxoffsetspertrigger": _LARGEST_BATCH,
    "maxeventspertrigger": _LARGEST_BATCH,
    "eventhubs.maxeventspertrigger": _LARGEST_BATCH,
    "maxrecordspertrigger": _LARGEST_BATCH,
    "maxrowspertrigger": _LARGEST_BATCH,
    "minoffsetspertrigger": "use minMessagesPerTrigger",
    "minrecordspertrigger": "use minMessagesPerTrigger",
    "prefetchcount": _CREDIT,
    "eventhubs.prefetchcount": _CREDIT,
    "initialcredits": _CREDIT,
    "startingoffsetsbytimestamp": "use startingTimestamp, which takes JSON as well",
    "endingoffsetsbytimestamp": "use endingTimestamp, which takes JSON as well",
    "eventhubs.startingposition": _START,
    "eventhubs.startingpositions": _START,
    "startingtime": "use startingTimestamp, for a log",
    "endingtime": "use endingTimestamp, for a log",
    "eventhubs.endingposition": "use endingOffsets or endingTimestamp, for a log",
    "eventhubs.consumergroup": "use consumerGroup, for an event hub; otherwise name a queue or a subscription",
    "includeheaders": "use columns: properties has the application properties, annotations the annotations",
    "metadatafields": "use columns",
    "schema": "use bodySchema for the body, or columns",
    "badrecordspath": "use mode and columnNameOfCorruptRecord, or onUnparsable=reject",
    "kafka.bootstrap.servers": _URL,
    "service.url": _URL,
    "host": _URL,
    "subscribe": "use address, or addresses for several logs",
    "subscribepattern": "use addressPattern, for logs",
    "assign": "use addresses, and startingOffsets for some partitions",
    "topic": _ADDRESS,
    "topics": "use addresses, for logs",
    "topicspattern": "use addressPattern, for logs",
    "queue": _ADDRESS,
    "stream": _ADDRESS,
    "superstream": _ADDRESS,
    "eventhubs.connectionstring": "use connectionString",
    "kafka.security.protocol": "begin the url with amqps:// for TLS",
    "kafka.sasl.mechanism": "use sasl",
    "path": _PATH,
    "paths": "use addresses in place of paths, for logs",
    "window": "use maxMessagesPerTrigger for the source; window is an option of the sink",
}
"""For the source."""

SINK_ELSEWHERE: Final = {
    **{name: SOURCE_ELSEWHERE[name] for name in ("kafka.bootstrap.servers", "service.url", "host", "topic", "queue")},
    **{name: SOURCE_ELSEWHERE[name] for name in ("kafka.security.protocol", "kafka.sasl.mechanism")},
    "stream": _ADDRESS,
    "path": _PATH,
    "eventhubs.connectionstring": "use connectionString",
    "includeheaders": "the columns properties and annotations are sent if they are there",
    "kafka.acks": "each row waits for the outcome of its message",
    "confirms": "each row waits for the outcome of its message",
    "bodyformat": "make the body with to_json(struct(...)) or to_avro(...), and set column content_type",
    "persistent": "use durable",
    "ttl": "use column ttl_ms",
    "priority": "use column priority",
    "outputmode": "use writeStream.outputMode(...)",
}
"""For the sink."""

"""Log mode of the source: offsets in Spark's checkpoint, and messages that executors read themselves.

choice      whether an address is a queue or a log
stream      Spark's calls for a streaming query
batch       Spark's calls for `spark.read`
survey      the logs of a query, as its driver sees them
tails       the logs of a node and of RabbitMQ; `event_hubs`: those of Azure
logs        what these have in common
ranges      the rows of a range, in an executor
link        one link to a partition, which an executor keeps from batch to batch
jumps       places in a log that no message came from
rows        the columns partition, offset and timestamp
offsets_at      a short link, which finds the offsets at one place
plan        arithmetic on offsets: shares of a batch, ranges of a batch; it does no input or output
options     the options of log mode
bounds      where a read begins and ends, as the options say it
"""

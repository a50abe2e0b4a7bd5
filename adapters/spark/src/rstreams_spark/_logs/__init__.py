"""Log mode of the source: offsets in Spark's checkpoint, and messages that executors read themselves.

bounds      where a read begins and ends, as the options say it
options     the options of log mode
plan        arithmetic on offsets: shares of a batch, ranges of a batch; it does no input or output
tails       the logs of a peer: their partitions, and the first and the last offset of each
link        one link to a partition, which an executor keeps from batch to batch
ranges      the rows of a range, in an executor
stream      Spark's calls for a streaming query
batch       Spark's calls for `spark.read`
choice      whether an address is a queue or a log
"""

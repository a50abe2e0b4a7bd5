"""What rstreams tells in the log: events with a name and fields, in one table; see `rstreams.logs`."""

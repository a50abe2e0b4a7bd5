"""The workloads that come with rstreams: each is a file with a function `workload`, which sets up a world."""

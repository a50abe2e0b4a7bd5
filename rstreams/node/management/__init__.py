"""Management of a node over AMQP: the addresses `$management` and `/management`, and what can be asked there."""

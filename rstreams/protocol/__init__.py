"""AMQP 1.0 links without input and output: one link as a state machine, its credit, its deliveries and its signals."""

"""The link wing, sans-IO: one AMQP 1.0 link as a state machine, its credit, its deliveries, and the signals on it."""

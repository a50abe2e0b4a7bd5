"""The base stages that sources, operators and sinks are made of."""

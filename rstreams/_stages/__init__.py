"""The base stages of sources, operators and sinks."""

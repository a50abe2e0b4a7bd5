"""The command line: `rstreams`, or `python -m rstreams.cli`; one module a command."""

"""The checks of the options of connections, links and nodes."""

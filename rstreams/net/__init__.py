"""Links over a network: the engine, the task that owns a connection, the client and the listener."""

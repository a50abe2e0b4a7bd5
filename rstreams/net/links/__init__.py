"""Links of a connection: streams from a peer, senders, and what becomes of their deliveries."""

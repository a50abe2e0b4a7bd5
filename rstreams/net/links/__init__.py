"""Links of a connection: streams from a peer, senders, and the outcomes of their deliveries."""

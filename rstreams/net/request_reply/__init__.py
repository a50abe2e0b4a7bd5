"""Request and reply on links to any AMQP 1.0 peer: the requester, and the responder with its answers."""

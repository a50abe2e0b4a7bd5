"""Request and reply on links to any AMQP 1.0 peer: who asks (`requester`), who answers (`answering`, `responder`)."""

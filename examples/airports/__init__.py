"""The demo: a year of weather observations at New York's three airports, through Spark, all over AMQP 1.0.

Run it with `make demo` or `python -m examples.airports`. Seven processes take part:

    publisher.py EWR ──┐
    publisher.py JFK ──┼─> queue "observations" ──> job.py (Spark) ──> queue "maxima" ──> subscriber.py
    publisher.py LGA ──┘   └────────────────── `rstreams node` ──────────────────┘
    demo.py starts and ends them, watches, and checks the result

The files to copy from are `publisher.py`, `job.py` and `subscriber.py`. What only the demo needs is in the other files.
`docs/tutorial.md` walks through all of it.
"""

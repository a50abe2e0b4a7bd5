"""The demo: Seattle's hourly temperatures of 2010, from a publisher through Spark to a subscriber, all over AMQP 1.0.

Run it with `make demo` or `python -m examples.seattle`. Five processes take part:

    publisher.py ──> queue "readings" ──> job.py (Spark) ──> queue "maxima" ──> subscriber.py
                     └──────────────── `rstreams node` ──────────────────┘
    __main__.py starts and ends them, watches, and checks the result

The files to copy from are `publisher.py`, `job.py` and `subscriber.py`. What only the demo needs is in `processes.py`,
`progress.py` and `view.py`. `docs/tutorial.md` walks through all of it.
"""

"""Small jobs for Spark that read AMQP 1.0 queues with `format("rstreams")`.

Each needs a node with its queues, such as

    rstreams node --queue weather:100000 --queue flights:100000 --queue readings:100000 --queue counts:100000

and is started with `python -m examples.spark.sensors`. It publishes its own input, and ends when it has read it.
"""

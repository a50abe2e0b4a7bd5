"""The old place of `rstreams.net.rabbitmq_management`, kept for programs that import from here."""

from rstreams.net.rabbitmq_management import ManagementRefused as ManagementRefused
from rstreams.net.rabbitmq_management import RabbitMQManagement as RabbitMQManagement

# ruff: noqa: PLC0414 - a name that is shown again
from rstreams.net.rabbitmq_management import rabbitmq_management as rabbitmq_management

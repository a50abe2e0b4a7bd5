"""The old place of `rstreams.net.rabbitmq_management`, kept for programs that import from here."""

# ruff: noqa: PLC0414 - names that are exported again

from rstreams.net.rabbitmq_management import ManagementRefused as ManagementRefused
from rstreams.net.rabbitmq_management import RabbitMQManagement as RabbitMQManagement
from rstreams.net.rabbitmq_management import rabbitmq_management as rabbitmq_management

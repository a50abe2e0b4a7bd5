"""Connections: opened, accepted, secured, pumped, and opened again."""

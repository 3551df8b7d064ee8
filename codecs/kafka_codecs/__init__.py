"""Bytes to typed Kafka messages and back."""

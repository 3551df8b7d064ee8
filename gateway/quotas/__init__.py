"""Quotas: how much each owner may use of what the gateway limits. Pure: no IO, no clock."""

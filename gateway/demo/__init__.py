"""The demo: a real group, real clients, real traffic, rolled through the gateway."""

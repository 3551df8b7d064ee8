"""The demo: rolls a real group of real clients through the gateway, under traffic."""

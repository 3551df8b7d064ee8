"""Commands to a running gateway, and the socket in its state folder that takes them."""

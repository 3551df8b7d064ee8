"""Plain sockets and TLS connections behind one interface, and the certificates of TLS."""

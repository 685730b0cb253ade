"""`hotline probe`: watch the sockets of a server of any make, and derive its costs from them."""

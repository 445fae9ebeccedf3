"""HTTP servers: their addresses, and the bodies of requests read within limits."""

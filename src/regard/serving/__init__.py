"""HTTP server of run folders: one process for HTTP, and one for each model."""

"""What a query does with keys and values. Each kind is a file; read `reference.py` first."""

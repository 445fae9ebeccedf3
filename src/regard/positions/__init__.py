"""How a Transformer knows order. Each kind is a file; `sites.py` says where a kind can enter."""

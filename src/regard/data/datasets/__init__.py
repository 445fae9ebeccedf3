"""Data sets by name: what the catalog says of them, where their files are, and downloads."""

"""Exporters to other libraries, one file each."""

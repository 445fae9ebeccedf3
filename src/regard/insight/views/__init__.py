"""Quantities derived from recorded activations, one file a view."""

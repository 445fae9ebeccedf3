"""Hostile input: valid files and command lines (seeds), ways to damage them, and a fork server."""

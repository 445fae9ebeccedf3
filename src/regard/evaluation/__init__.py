"""Scores, by thin calls to the libraries the field knows."""

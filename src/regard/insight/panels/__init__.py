"""Panels of a picture: attention weights, expert routing, and gradients for models without either.

Each panel is a matrix of shares from queries to keys, for each layer and head.
"""

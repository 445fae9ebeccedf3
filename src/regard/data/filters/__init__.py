"""Filters that keep or drop records: checks, deduplication, decontamination."""

"""Filters that drop records: quality rules, deduplication, decontamination."""

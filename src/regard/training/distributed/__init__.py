"""Distributed training: data parallel, FSDP, expert parallel."""

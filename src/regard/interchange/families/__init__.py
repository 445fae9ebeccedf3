"""Mappings from model families of other libraries to Regard's, one file each."""

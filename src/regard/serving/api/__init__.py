"""Protocols that clients speak: one file each, which `application` finds by itself.

Every module exports

    PREFIXES: tuple[str, ...]      paths whose errors have the shape of this protocol
    router(models, settings)       its routes, as an APIRouter
    error_body(error)              the body of an answer to a ServingError
"""

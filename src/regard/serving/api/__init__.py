"""Protocols that clients speak: one file each, which `application` finds by itself.

Every module exports

    PREFIXES: tuple[str, ...]      paths whose errors have the shape of this protocol
    router(models, settings)       its routes, as an APIRouter
    error_body(error)              the body of an answer to a ServingError

and, if its answers to some errors have another status than that of the ServingError,

    STATUSES: Mapping[int, int]    that status by the one of the ServingError
"""

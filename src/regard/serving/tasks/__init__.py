"""Tasks of requests: one file each. Predictors are imported when a task runs, never before.

The server imports these modules for the types of arguments and results; the worker of a model runs
them. A module that is added here is found by its name; `base.py` says what it must contain.
"""

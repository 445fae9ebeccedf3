"""Views of the attention page: each is a Python file and a script of the same name beside it."""

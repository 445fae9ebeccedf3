"""The attention page: HTML, CSS and JavaScript filled with plain data."""

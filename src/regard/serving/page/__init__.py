"""The page for people: HTML, styles and scripts that the server sends as they are."""

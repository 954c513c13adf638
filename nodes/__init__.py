"""One node a file: a pure policy function with a thin node around it."""

"""What `toposeat profile` puts on PYTHONPATH of a program: loaded by it, not by toposeat."""

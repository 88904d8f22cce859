"""What `run` puts on PYTHONPATH of torchrun: loaded by torch, not by toposeat."""

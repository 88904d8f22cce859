"""Profiles that other tools wrote: one module per source."""

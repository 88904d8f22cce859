"""A run under the interposer."""

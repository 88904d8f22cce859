"""Rows and sentences of each noun; the writers beside this package lay them out."""

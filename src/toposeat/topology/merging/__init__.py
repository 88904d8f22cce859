"""Steps of a merge: rank and join the sources, overlay fields, bonds and numbers."""

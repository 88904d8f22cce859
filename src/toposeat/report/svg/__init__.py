"""Drawings: the machine and the charts, as SVG that needs nothing but itself."""

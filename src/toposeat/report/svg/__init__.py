"""Self-contained SVG drawings of machines and charts."""

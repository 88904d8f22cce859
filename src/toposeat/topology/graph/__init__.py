"""The machine as a graph: components, links, routes."""

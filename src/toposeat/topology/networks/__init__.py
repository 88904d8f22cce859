"""Networks of hosts: one reader per source, each giving a `Network`."""

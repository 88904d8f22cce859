"""Every verb beside a hostile neighbour: two users without privileges on one machine."""

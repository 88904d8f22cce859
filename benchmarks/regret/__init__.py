"""What a false premise costs: links paced as one machine, drivers and files that say another."""

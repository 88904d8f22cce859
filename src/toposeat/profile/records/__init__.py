"""The interposer's records: read, summed, merged."""

"""Passes on the tile IR, one file each."""

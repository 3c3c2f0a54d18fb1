"""Kernels for SIMT devices, emitted from the tile IR; shared by the targets whose devices run blocks of threads."""

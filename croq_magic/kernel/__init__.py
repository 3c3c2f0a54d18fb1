"""The Croqtile kernel for Jupyter: IPython's kernel in which a cell with a tileflow function needs no magic line."""

"""Triangles and strands to pixels: every compiled loop of the renderer is in here."""

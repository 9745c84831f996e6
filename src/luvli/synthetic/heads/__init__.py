"""Morphable heads: the built-in one, ICT FaceKit, and what follows from a head's shape alone."""

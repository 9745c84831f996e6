"""Faces, boxes and point sets on pictures."""

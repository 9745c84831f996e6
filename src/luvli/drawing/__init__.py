"""Faces, boxes and point sets on images."""

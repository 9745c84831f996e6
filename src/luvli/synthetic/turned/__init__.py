"""Labelled photographs turned out of plane: the head fitted to them, draped with them and turned.

The paper's networks begin with 300W-LP, faces of 300-W turned up to profile. This makes such faces
from any set with 68 points: `fit` lays the morphable head on the labels, `drape` turns it and draws
it with the photograph's own pixels, `faces` makes a set of them. Labels move along with the visible
outline of the face, as 300-W's do; what the head hides is self-occluded.
"""

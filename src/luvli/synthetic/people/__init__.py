"""Who is in the picture: shape, mood, skin and hair."""

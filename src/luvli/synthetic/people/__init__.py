"""Who is in the image: shape, mood, skin and hair."""

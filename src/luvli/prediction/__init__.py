"""From an image or a video to landmarks, their uncertainty and their visibility."""

"""From a picture or a video to landmarks, their uncertainty and their visibility."""

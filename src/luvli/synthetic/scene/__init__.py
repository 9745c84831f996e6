"""What stands before the camera and around it: pose, light, objects, background, lens, labels."""

"""What people measure on faces, with error bars: head pose, eyes, mouth, brows, symmetry."""

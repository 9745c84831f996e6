"""Aligned faces for a recognition network; those that cannot be trusted are left out.

python examples/face_alignment.py photo.jpg chips/
"""

from __future__ import annotations

import sys
from pathlib import Path

import luvli
from luvli import InputError
from luvli.image.write import write_image

MAX_UNCERTAINTY = 0.05
"""mean standard deviation of the landmarks, in widths of the face"""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    image, folder = sys.argv[1], Path(sys.argv[2])
    for number, face in enumerate(luvli.predict(image)):
        width = float(face.box[2] - face.box[0])
        if face.doubtful or face.uncertainty.mean() > MAX_UNCERTAINTY * width:
            print(f"face {number}: left out, its alignment is too uncertain")
            continue
        target = folder / f"{Path(image).stem}-{number}.png"
        write_image(target, face.align(image, size=112, template="arcface"))
        print(target)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:  # one sentence that names the file and what to do
        sys.exit(str(error))

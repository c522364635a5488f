"""Arrays for the inputs of a model, from .npz and .npy files and from images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cli.images import read_image
from autosched.cli.model_arguments import PIXELS
from autosched.errors import ModelError, UsageError, check_path, named_file

Array = np.ndarray[Any, Any]

#: the shape and the type of an input by its name
Wanted = Callable[[str], tuple[Sequence[Any], str]]


def read_inputs(
    words: Sequence[str], names: Sequence[str], wanted: Wanted, pixels: str, say: Callable[[str], None]
) -> dict[str, Any]:
    """The arrays of `FILE.npz`, `NAME=FILE.npy` and `NAME=IMAGE`; `say` is told what was done to an image.

    Raises ModelError for an input that there is not, UsageError, FileError, ImageError.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, file = word.rpartition("=")
        path = check_path(file, f"--inputs {word}")
        loaded = _numpy(word, path) if path.suffix.lower() in (".npz", ".npy", "") else None
        if isinstance(loaded, np.lib.npyio.NpzFile):
            found.update({k: loaded[k] for k in loaded.files})
            continue
        if not equals and len(names) != 1:
            legal = f"NAME={file}, of {', '.join(names)}"
            raise UsageError("which input is it for?", asked=f"--inputs {word}", legal=legal)
        name = name or names[0]
        _check_name(name, names)
        found[name] = loaded if loaded is not None else fitted(path, name, *wanted(name), pixels, say)
    for name in found:
        _check_name(name, names)
    return found


def _check_name(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ModelError(f"there is no input {name!r}", asked="--inputs", legal=f"inputs: {', '.join(names) or 'none'}")


def _numpy(word: str, path: Path) -> Any:
    with named_file(f"--inputs {word}"):
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise UsageError(str(error), asked=f"--inputs {word}", legal=".npz, .npy or an image") from None


def fitted(path: Path, name: str, shape: Sequence[Any], of: str, pixels: str, say: Callable[[str], None]) -> Array:
    """An image as an input: scaled until it covers the input's height and width, cut to its centre, with the channels
    where the input has them, and pixels as `PIXELS` says.

    Raises ModelError for an input that takes no image.
    """
    asked = f"--inputs {name}={path}"
    rest = [d for d in shape[-3:] if isinstance(d, int)]
    if len(rest) != 3 or len(shape) not in (3, 4) or (len(shape) == 4 and shape[0] != 1):
        raise ModelError(f"its shape is {list(shape)}", asked=asked, legal=f"--shape {name}:1x3xHEIGHTxWIDTH")
    first = rest[0] in (1, 3) and rest[2] not in (1, 3)
    channels, height, width = rest if first else (rest[2], *rest[:2])
    if channels not in (1, 3):
        raise ModelError(f"{channels} channels are no picture", asked=asked, legal="1 or 3 channels")
    image = _covering(read_image(path), height, width, channels)
    less, scale = PIXELS[pixels]
    if len(less) not in (1, channels):
        raise ModelError(f"{pixels} is for 3 channels", asked=asked, legal="--pixels unit")
    values = (image - np.array(less, np.float32)) / np.array(scale, np.float32)
    values = values if of.startswith("float") else np.rint(values)
    made = (values.transpose(2, 0, 1) if first else values).reshape([int(d) for d in shape])
    colours = "RGB" if channels == 3 else "grey"
    say(f"{name}: {path.name} scaled to cover {width}x{height} and cut to its centre, {colours}, {pixels}")
    return np.ascontiguousarray(made.astype(of))


def _covering(image: Array, height: int, width: int, channels: int) -> Array:
    """The centre of an image in that size, from 0 to 255."""
    from PIL import Image

    most = np.iinfo(image.dtype).max if image.dtype.kind in "iu" else 1.0
    image = image.astype(np.float32) * (255.0 / most)
    colour = image[..., :3] if image.shape[2] >= 3 else np.repeat(image[..., :1], 3, axis=2)
    if channels == 1:
        colour = colour @ np.array([[0.299], [0.587], [0.114]], np.float32)  # luma of ITU-R BT.601
    h, w = colour.shape[:2]
    scale = max(height / h, width / w)
    size = max(round(w * scale), width), max(round(h * scale), height)
    planes = [
        np.asarray(Image.fromarray(np.ascontiguousarray(colour[..., c])).resize(size, Image.Resampling.BILINEAR))
        for c in range(channels)
    ]
    top, left = (size[1] - height) // 2, (size[0] - width) // 2
    return np.stack(planes, axis=2)[top : top + height, left : left + width]

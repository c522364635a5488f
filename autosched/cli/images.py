"""Image files as arrays of shape (height, width, channels), and back. Needs Pillow, loaded when used.

`.npy` files are taken too, for element types and channel counts that image files do not have.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from autosched.errors import ImageError
from autosched.places import write_whole
from autosched.space.samples import photograph_file

Array = np.ndarray[Any, Any]

#: Pillow's modes that are read as they are -> (channels, dtype)
_PLAIN = {
    "L": "uint8",
    "LA": "uint8",
    "RGB": "uint8",
    "RGBA": "uint8",
    "I;16": "uint16",
    "I;16L": "uint16",
    "I;16B": "uint16",
    "I;16N": "uint16",
    "I": "int32",
    "F": "float32",
}
#: (channels, dtype) -> Pillow's mode to write
_WRITTEN = {
    (1, "uint8"): "L",
    (2, "uint8"): "LA",
    (3, "uint8"): "RGB",
    (4, "uint8"): "RGBA",
    (1, "uint16"): "I;16",
    (1, "int32"): "I",
    (1, "float32"): "F",
}
_EXAMPLES = (".png", ".jpg", ".tif", ".webp", ".bmp", ".ppm", ".npy")


def read_image(path: str | os.PathLike[str]) -> Array:
    """The image as a C-contiguous array (height, width, channels).

    Grey has 1 channel, grey with alpha 2, colour 3, with alpha 4; 16-bit grey is uint16, the rest
    uint8 (32-bit TIFF: int32 or float32). Palettes and colour spaces other than RGB are converted,
    and a camera's rotation is applied. Of an animation, the first frame. Raises ImageError.
    """
    file = Path(path).expanduser()
    try:
        array = _read_npy(file) if file.suffix.lower() == ".npy" else _read_with_pillow(file)
    except ImageError:
        raise
    except OSError as error:
        # Pillow's own complaints are OSErrors as well, without a number; none of them names the file.
        reason = error.strerror if error.errno else str(error)
        raise _unreadable(file, f"it cannot be read: {reason}") from None
    except ImportError as error:
        raise ImageError(
            f"the package Pillow, which reads image files, is missing: {error}",
            asked=f"image {file}",
            legal="pip install pillow; .npy files are read without it",
        ) from None
    except MemoryError:
        raise _unreadable(file, "it does not fit into memory") from None
    except Exception as error:  # decoders raise SyntaxError, ValueError, struct.error, ... for damaged files
        raise _unreadable(file, f"it is damaged: {error}") from error
    if array.size == 0:
        raise _unreadable(file, f"it is empty: {' x '.join(map(str, array.shape))}")
    return np.ascontiguousarray(array)


def grey(image: Array) -> Array:
    """A (height, width, channels) array as (height, width): of colours, the luma of ITU-R 601; alpha is dropped."""
    if image.shape[-1] <= 2:
        return np.ascontiguousarray(image[:, :, 0])
    luma = image[:, :, :3].astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    is_whole = np.issubdtype(image.dtype, np.integer)
    return np.ascontiguousarray((np.rint(luma) if is_whole else luma).astype(image.dtype))


def _unreadable(file: Path, why: str) -> ImageError:
    return ImageError(why, asked=f"image {file}", legal="give a readable image file, such as a PNG or a JPEG")


def _read_npy(file: Path) -> Array:
    with open(file, "rb") as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise _unreadable(file, "it is not a .npy file")
    array: Array = np.load(file, allow_pickle=False)
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim != 3:
        raise _unreadable(file, f"its shape is {array.shape}, not (height, width) or (height, width, channels)")
    return array


def _read_with_pillow(file: Path) -> Array:
    from PIL import Image, ImageOps, UnidentifiedImageError

    if file.stat().st_size == 0:
        raise _unreadable(file, "the file is empty")
    with _any_size(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            opened = Image.open(file)
        except UnidentifiedImageError:
            raise _unreadable(file, "it is not an image in a known format") from None
        with opened as source:
            image = ImageOps.exif_transpose(source)
            return _as_array(image, source.format)


def _as_array(image: Any, file_format: str | None) -> Array:
    """A loaded Pillow image as an array with a channel axis."""
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode in ("P", "PA", "La", "RGBa") or (image.mode not in _PLAIN and image.mode[-1] in "aA"):
        with_alpha = image.mode != "P" or "transparency" in image.info
        image = image.convert("RGBA" if with_alpha else "RGB")
    elif image.mode not in _PLAIN:
        image = image.convert("RGB")
    dtype = _PLAIN[image.mode]
    if image.mode == "I" and file_format in ("PNG", "PPM"):
        dtype = "uint16"  # Pillow widens their 16 bits
    array = np.asarray(image).astype(dtype)
    return array if array.ndim == 3 else array[:, :, np.newaxis]


@contextmanager
def _any_size() -> Iterator[None]:
    """Lift Pillow's limit, which guards servers against uploads: this is the user's own file."""
    from PIL import Image

    before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


# -- writing --------------------------------------------------------------------------------------
def check_output(path: str | os.PathLike[str]) -> None:
    """Raise ImageError for a file that cannot be written, before time is spent on what goes in."""
    file = Path(path).expanduser()
    suffix = file.suffix.lower()
    if suffix != ".npy" and suffix not in _formats():
        what = f"no image format has the extension {suffix!r}" if suffix else "it has no extension that names a format"
        raise ImageError(what, asked=f"output {file}", legal=f"for example {', '.join(_EXAMPLES)}")
    if os.path.isdir(file):
        raise ImageError("it is a folder", asked=f"output {file}", legal="name a file")
    if not os.path.isdir(file.parent):
        raise ImageError("its folder does not exist", asked=f"output {file}", legal=f"create {file.parent} first")


def _formats() -> dict[str, str]:
    """Suffix -> Pillow's name of the format, for those that it writes."""
    from PIL import Image

    return {suffix: name for suffix, name in Image.registered_extensions().items() if name in Image.SAVE}


def write_image(path: str | os.PathLike[str], array: Array) -> None:
    """Write an array (height, width, channels) as the format that the path's extension names.

    The file appears whole or not at all. Raises ImageError for an array or path that cannot be.
    """
    file = Path(path).expanduser()
    check_output(file)
    if array.ndim == 2:
        array = array[:, :, np.newaxis]

    def write(out: IO[bytes]) -> None:
        if file.suffix.lower() == ".npy":
            np.save(out, array, allow_pickle=False)
        else:
            _as_image(file, array).save(out, format=_formats()[file.suffix.lower()])

    try:
        write_whole(file, write)
    except ImageError:
        raise
    except (OSError, ValueError, KeyError) as error:
        errno = getattr(error, "errno", None)
        reason = error.strerror if isinstance(error, OSError) and errno else str(error)
        legal = "choose another place" if errno else "try .png, or .npy, which holds anything"
        raise ImageError(f"it cannot be written: {reason}", asked=f"output {file}", legal=legal) from None


def _as_image(file: Path, array: Array) -> Any:
    from PIL import Image

    height, width, channels = array.shape if array.ndim == 3 else (0, 0, 0)
    mode = _WRITTEN.get((channels, array.dtype.name))
    if mode in ("I", "F") and file.suffix.lower() not in (".tif", ".tiff"):
        mode = None  # Pillow would cut 32 bits to what the format has
    if mode is None or not height or not width:
        shape = " x ".join(map(str, array.shape))
        legal = "images hold 1 to 4 channels of uint8, or one of uint16, or in .tif int32, float32; .npy holds anything"
        raise ImageError(f"no image holds {shape} of {array.dtype}", asked=f"output {file}", legal=legal)
    plane = np.ascontiguousarray(array[:, :, 0] if channels == 1 else array)
    return Image.frombytes(mode, (width, height), plane.tobytes())


def fits_png(channels: int, dtype: str) -> bool:
    """Whether a PNG can hold arrays of this type with as many channels."""
    return (channels, dtype) in _WRITTEN and dtype in ("uint8", "uint16")


def photograph_path() -> Path:
    """A photograph that comes with scikit-learn, which is located but not imported. Raises ImageError."""
    path = photograph_file()
    if path is not None:
        return path
    raise ImageError(
        "scikit-learn, whose photograph stands in for one, is not installed",
        asked="no image was given",
        legal="give an image file, or: pip install scikit-learn",
    )

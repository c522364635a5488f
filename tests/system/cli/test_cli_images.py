"""Image files as arrays and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from autosched.cli.images import check_output, fits_png, photograph_path, read_image, write_image
from autosched.cli.workloads import check_image
from autosched.errors import ImageError, UsageError
from autosched.space.loading import find_workload


def noise(*shape: int, dtype: str = "uint8") -> np.ndarray[Any, Any]:
    top = np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else 1000
    return np.random.default_rng(0).integers(0, top, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (13, 17)])
@pytest.mark.parametrize(("channels", "dtype"), [(1, "uint8"), (2, "uint8"), (3, "uint8"), (4, "uint8"), (1, "uint16")])
def test_png_round_trip(tmp_path: Path, size: tuple[int, int], channels: int, dtype: str) -> None:
    array = noise(*size, channels, dtype=dtype)
    write_image(tmp_path / "a.png", array)
    back = read_image(tmp_path / "a.png")
    assert back.dtype == array.dtype
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back, array)
    assert fits_png(channels, dtype)


@pytest.mark.parametrize(
    ("name", "channels", "dtype"),
    [
        *[("a.tif", 1, "int32"), ("a.tif", 1, "float32"), ("a.tif", 1, "uint16"), ("a.tif", 4, "uint8")],
        *[("a.bmp", 3, "uint8"), ("a.ppm", 3, "uint8"), ("a.pgm", 1, "uint16"), ("A.PNG", 3, "uint8")],
        *[("a.npy", 5, "float64"), ("a.npy", 3, "uint16"), ("a.npy", 1, "bool")],
    ],
)
def test_other_formats_round_trip(tmp_path: Path, name: str, channels: int, dtype: str) -> None:
    array = noise(3, 4, channels, dtype="uint8").astype(dtype)
    write_image(tmp_path / name, array)
    back = read_image(tmp_path / name)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    ("mode", "name", "shape"),
    [
        ("1", "a.png", (3, 4, 1)),
        ("P", "a.png", (3, 4, 3)),
        ("P", "a.gif", (3, 4, 3)),
        ("CMYK", "a.jpg", (3, 4, 3)),
        ("YCbCr", "a.jpg", (3, 4, 3)),
        ("LAB", "a.tif", (3, 4, 3)),
        ("LA", "a.png", (3, 4, 2)),
    ],
)
def test_modes_are_converted(tmp_path: Path, mode: str, name: str, shape: tuple[int, ...]) -> None:
    Image.new(mode, (4, 3)).save(tmp_path / name)
    image = read_image(tmp_path / name)
    assert image.shape == shape
    assert image.dtype == np.uint8


def test_black_and_white_become_0_and_255(tmp_path: Path) -> None:
    picture = Image.new("1", (2, 1))
    picture.putpixel((1, 0), 1)
    picture.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").ravel().tolist() == [0, 255]


def test_a_transparent_palette_has_alpha(tmp_path: Path) -> None:
    Image.new("P", (4, 3)).save(tmp_path / "a.png", transparency=0)
    image = read_image(tmp_path / "a.png")
    assert image.shape == (3, 4, 4)
    assert not image[..., 3].any()


def test_a_cameras_rotation_is_applied(tmp_path: Path) -> None:
    picture = Image.new("RGB", (4, 3))
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").shape == (4, 3, 3)


def test_pillows_limit_on_sizes_does_not_apply_and_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    write_image(tmp_path / "a.png", noise(10, 10, 1))
    assert read_image(tmp_path / "a.png").shape == (10, 10, 1)
    assert Image.MAX_IMAGE_PIXELS == 4


def test_grey_npy_gets_a_channel_axis(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(3, 4))
    assert read_image(tmp_path / "a.npy").shape == (3, 4, 1)


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 8] = b"01234567"
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("missing.png", None, "cannot be read: No such file or directory"),
        ("empty.png", b"", "the file is empty"),
        ("text.png", b"hello, world", "not an image in a known format"),
        ("text.npy", b"hello, world", "not a .npy file"),
        ("cut.npy", b"\x93NUMPY\x01\x00", "it is damaged"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ImageError, match=why) as caught:
        read_image(path)
    assert caught.value.asked == f"image {path}"
    assert caught.value.exit_status == 2


def test_damaged_images(tmp_path: Path) -> None:
    for name in ("a.png", "a.jpg", "a.tif", "a.gif"):
        path = tmp_path / name
        write_image(path, noise(60, 60, 3))
        path.write_bytes(path.read_bytes()[:400])
        with pytest.raises(ImageError):
            read_image(path)
    write_image(tmp_path / "b.png", noise(60, 60, 3))
    damaged(tmp_path / "b.png")
    with pytest.raises(ImageError):
        read_image(tmp_path / "b.png")


def test_a_folder_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="Is a directory"):
        read_image(tmp_path)


def test_npy_files_that_are_no_images(tmp_path: Path) -> None:
    for array, why in [(noise(3), "its shape is"), (noise(0, 4, 3), "it is empty: 0 x 4 x 3")]:
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(ImageError, match=why):
            read_image(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ImageError, match="damaged"):  # never unpickled
        read_image(tmp_path / "a.npy")


# -- writing --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "array", "why", "legal"),
    [
        ("a.foo", noise(3, 4, 3), "no image format has the extension '.foo'", ".png, .jpg"),
        ("a", noise(3, 4, 3), "no extension", ".png, .jpg"),
        ("no/a.png", noise(3, 4, 3), "folder does not exist", "create"),
        ("a.jpg", noise(3, 4, 4), "cannot write mode RGBA as JPEG", ".npy"),
        ("a.png", noise(3, 4, 3, dtype="uint16"), "no image holds 3 x 4 x 3 of uint16", ".npy"),
        ("a.png", noise(3, 4, 1, dtype="int32"), "no image holds 3 x 4 x 1 of int32", ".tif"),
        ("a.png", noise(3, 4, 5), "no image holds 3 x 4 x 5", ".npy"),
        ("a.png", noise(0, 4, 1), "no image holds 0 x 4 x 1", ".npy"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, name: str, array: np.ndarray[Any, Any], why: str, legal: str) -> None:
    with pytest.raises(ImageError, match=why) as caught:
        write_image(tmp_path / name, array)
    assert legal in caught.value.legal
    assert not any(tmp_path.iterdir())  # not even a part


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    write_image(path, noise(3, 4, 3))
    before = path.read_bytes()
    with pytest.raises(ImageError):
        write_image(path, noise(3, 4, 4))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_made_with_the_users_permissions(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_image(tmp_path / "a.png", noise(1, 1, 1))
    finally:
        os.umask(before)
    assert (tmp_path / "a.png").stat().st_mode & 0o777 == 0o644


def test_outputs_are_checked_before_work_is_done(tmp_path: Path) -> None:
    check_output(tmp_path / "a.png")
    (tmp_path / "b.png").mkdir()
    with pytest.raises(ImageError, match="folder"):
        check_output(tmp_path / "b.png")


def test_the_photograph_comes_with_scikit_learn() -> None:
    assert read_image(photograph_path()).shape == (427, 640, 3)


def test_without_scikit_learn_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImageError, match="no image was given"):
        photograph_path()


def test_a_workload_of_two_dimensions_takes_a_grey_image(tmp_path: Path) -> None:
    sobel, grey_noise = find_workload("sobel")(), noise(5, 7, 1)
    assert check_image(sobel, grey_noise, "x").tolist() == grey_noise[:, :, 0].tolist()
    colours = np.repeat(grey_noise, 3, axis=2)
    assert check_image(sobel, colours, "x").tolist() == grey_noise[:, :, 0].tolist()
    red = np.zeros((2, 2, 4), "uint8")
    red[..., 0] = 200
    assert check_image(sobel, red, "x").tolist() == [[60, 60]] * 2  # 0.299 * 200, alpha dropped
    with pytest.raises(UsageError, match="the image is 5 x 7 of uint16"):
        check_image(sobel, noise(5, 7, 1, dtype="uint16"), "x")
    with pytest.raises(UsageError, match="does not take one image"):
        check_image(find_workload("matmul")(), grey_noise, "x")


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(tmp_path / "a.png", noise(3, 4, 3))
    write_image(tmp_path / "a.npy", noise(3, 4, 3))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImageError, match=r"(?s)Pillow.*is missing.*pip install pillow"):
        read_image(tmp_path / "a.png")
    assert read_image(tmp_path / "a.npy").shape == (3, 4, 3)

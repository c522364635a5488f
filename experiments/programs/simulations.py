"""Simulations in time steps."""

from __future__ import annotations

import numpy as np

from autosched import te

from . import prange, program

Array = np.ndarray

#: of most simulations in the plane
STEPS = 32


def _heat_numpy(a: Array) -> Array:
    for _ in range(63):
        b = a.copy()
        b[1:-1] = 0.25 * a[:-2] + 0.5 * a[1:-1] + 0.25 * a[2:]
        a = b
    return a


def _heat_numba(first, out):  # type: ignore[no-untyped-def]
    n, bands, quarter, half = first.size, 8, np.float32(0.25), np.float32(0.5)
    a, b = first.copy(), first.copy()
    for _ in range(63):
        for band in prange(bands):
            begin, end = max(1, band * n // bands), min(n - 1, (band + 1) * n // bands)
            left, here, right, new = a[begin - 1 : end - 1], a[begin:end], a[begin + 1 : end + 1], b[begin:end]
            for i in range(end - begin):
                new[i] = quarter * (left[i] + right[i]) + half * here[i]
        a, b = b, a
    out[:] = a


@program(_heat_numpy, numba=_heat_numba)
def heat_1d(steps: int = 64, n: int = 65536) -> tuple[te.Tensor, ...]:
    """Heat along a rod of n points whose ends stay as they are: the last of `steps` states."""
    rod = te.placeholder((n,), name="rod")
    state = te.placeholder((steps, n), name="state")
    first = te.compute((1, n), lambda _, i: rod[i], name="first")

    def move(t: te.Expr, i: te.Expr) -> te.Expr:
        left, right = te.max(i - 1, 0), te.min(i + 1, n - 1)
        inside = te.all(i > 0, i < n - 1)
        moved = 0.25 * state[t - 1, left] + 0.5 * state[t - 1, i] + 0.25 * state[t - 1, right]
        return te.if_then_else(inside, moved, state[t - 1, i])

    states = te.scan(first, te.compute((steps, n), move, name="step"), state, name="states")
    return rod, te.compute((n,), lambda i: states[steps - 1, i], name="last")


def _jacobi_numpy(a: Array) -> Array:
    for _ in range(STEPS):
        b = a.copy()
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    return a


def _jacobi_numba(first, out):  # type: ignore[no-untyped-def]
    n, quarter = len(first), np.float32(0.25)
    a, b = first.copy(), first.copy()
    for _ in range(STEPS):
        for y in prange(1, n - 1):
            for x in range(1, n - 1):
                b[y, x] = quarter * (a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1])
        a, b = b, a
    out[:] = a


@program(_jacobi_numpy, numba=_jacobi_numba)
def jacobi_2d(steps: int = STEPS, n: int = 512) -> tuple[te.Tensor, ...]:
    """A plate[n, n] whose edges stay as they are, after `steps` times the mean of the four neighbours."""
    plate = te.placeholder((n, n), name="plate")
    state = te.placeholder((steps + 1, n, n), name="state")
    first = te.compute((1, n, n), lambda _, y, x: plate[y, x], name="first")
    edge = te.repeat_edge(state, axes=(1, 2))

    def move(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        inside = te.all(y > 0, y < n - 1, x > 0, x < n - 1)
        around = edge[t - 1, y - 1, x] + edge[t - 1, y + 1, x] + edge[t - 1, y, x - 1] + edge[t - 1, y, x + 1]
        return te.if_then_else(inside, 0.25 * around, state[t - 1, y, x])

    states = te.scan(first, te.compute((steps + 1, n, n), move, name="step"), state, name="states")
    return plate, te.compute((n, n), lambda y, x: states[steps, y, x], name="last")


def _heat_3d_numpy(a: Array) -> Array:
    for _ in range(8):
        p = np.pad(a, 1, mode="edge")
        around = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1]
        around += p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
        a = a + np.float32(0.1) * (around - 6 * a)
    return a


def _heat_3d_numba(first, out):  # type: ignore[no-untyped-def]
    n, rate, six = len(first), np.float32(0.1), np.float32(6)
    a, b = np.empty((n + 2, n + 2, n + 2), np.float32), np.empty((n + 2, n + 2, n + 2), np.float32)
    a[1:-1, 1:-1, 1:-1] = first
    for _ in range(8):
        for z in prange(1, n + 1):
            a[z, 0], a[z, n + 1] = a[z, 1], a[z, n]
            a[z, :, 0], a[z, :, n + 1] = a[z, :, 1], a[z, :, n]
        a[0], a[n + 1] = a[1], a[n]
        for z in prange(1, n + 1):
            for y in range(1, n + 1):
                for x in range(1, n + 1):
                    around = a[z - 1, y, x] + a[z + 1, y, x] + a[z, y - 1, x] + a[z, y + 1, x]
                    around += a[z, y, x - 1] + a[z, y, x + 1]
                    b[z, y, x] = a[z, y, x] + rate * (around - six * a[z, y, x])
        a, b = b, a
    out[:] = a[1:-1, 1:-1, 1:-1]


@program(_heat_3d_numpy, numba=_heat_3d_numba)
def heat_3d(steps: int = 8, n: int = 64) -> tuple[te.Tensor, ...]:
    """Heat in a block[n, n, n] that gives none away, after `steps` steps."""
    block = te.placeholder((n, n, n), name="block")
    state = te.placeholder((steps + 1, n, n, n), name="state")
    first = te.compute((1, n, n, n), lambda _, z, y, x: block[z, y, x], name="first")
    edge = te.repeat_edge(state, axes=(1, 2, 3))

    def move(t: te.Expr, z: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        along_z = edge[t - 1, z - 1, y, x] + edge[t - 1, z + 1, y, x]
        along_y = edge[t - 1, z, y - 1, x] + edge[t - 1, z, y + 1, x]
        along_x = edge[t - 1, z, y, x - 1] + edge[t - 1, z, y, x + 1]
        here = state[t - 1, z, y, x]
        return here + 0.1 * (along_z + along_y + along_x - 6 * here)

    states = te.scan(first, te.compute((steps + 1, n, n, n), move, name="step"), state, name="states")
    return block, te.compute((n, n, n), lambda z, y, x: states[steps, z, y, x], name="last")


def _wave_numpy(before: Array, now: Array) -> Array:
    for _ in range(STEPS):
        p = np.pad(now, 1)
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        before, now = now, 2 * now - before + np.float32(0.2) * (around - 4 * now)
    return now


def _wave_numba(before, now, out):  # type: ignore[no-untyped-def]
    n, speed, four, two = len(now), np.float32(0.2), np.float32(4), np.float32(2)
    a, b = np.zeros((n + 2, n + 2), np.float32), np.zeros((n + 2, n + 2), np.float32)
    a[1:-1, 1:-1], b[1:-1, 1:-1] = before, now
    for _ in range(STEPS):
        for y in prange(1, n + 1):
            for x in range(1, n + 1):
                around = b[y - 1, x] + b[y + 1, x] + b[y, x - 1] + b[y, x + 1]
                a[y, x] = two * b[y, x] - a[y, x] + speed * (around - four * b[y, x])
        a, b = b, a
    out[:] = b[1:-1, 1:-1]


@program(_wave_numpy, atol=1e-3, numba=_wave_numba)
def wave_2d(steps: int = STEPS, n: int = 384) -> tuple[te.Tensor, ...]:
    """A membrane of n x n points in a fixed frame, from two successive states: the one `steps` later."""
    before, now = te.placeholder((n, n), name="before"), te.placeholder((n, n), name="now")
    state = te.placeholder((steps + 2, n, n), name="state")
    first = te.compute((2, n, n), lambda t, y, x: te.if_then_else(t == 0, before[y, x], now[y, x]), name="first")
    frame = te.constant_exterior(state, 0.0, axes=(1, 2))

    def move(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        around = frame[t - 1, y - 1, x] + frame[t - 1, y + 1, x] + frame[t - 1, y, x - 1] + frame[t - 1, y, x + 1]
        here = state[t - 1, y, x]
        return 2 * here - state[t - 2, y, x] + 0.2 * (around - 4 * here)

    states = te.scan(first, te.compute((steps + 2, n, n), move, name="step"), state, name="states")
    return before, now, te.compute((n, n), lambda y, x: states[steps + 1, y, x], name="last")


def _spots(steps: int, n: int) -> list[Array]:
    """One chemical everywhere, and some of the other in the middle."""
    noise = np.random.default_rng(0).random((2, n, n), "float32") * np.float32(0.05)
    u, v = 1 - noise[0], noise[1]
    middle = slice(n // 2 - n // 8, n // 2 + n // 8)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    return [u, v]


def _gray_scott_numpy(u: Array, v: Array) -> tuple[Array, Array]:
    def laplace(a: Array) -> Array:
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    for _ in range(STEPS):
        reaction = u * v * v
        u, v = (
            u + (np.float32(0.16) * laplace(u) - reaction + np.float32(0.035) * (1 - u)),
            v + (np.float32(0.08) * laplace(v) + reaction - np.float32(0.1) * v),
        )
    return u, v


def _gray_scott_numba(first_u, first_v, last_u, last_v):  # type: ignore[no-untyped-def]
    n, one, four = len(first_u), np.float32(1), np.float32(4)
    fast, slow, feed, drain = np.float32(0.16), np.float32(0.08), np.float32(0.035), np.float32(0.1)
    u, v = np.empty((n + 2, n + 2), np.float32), np.empty((n + 2, n + 2), np.float32)
    u[1:-1, 1:-1], v[1:-1, 1:-1] = first_u, first_v
    new_u, new_v = u.copy(), v.copy()
    for _ in range(STEPS):
        for x in range(1, n + 1):
            u[0, x], u[n + 1, x], u[x, 0], u[x, n + 1] = u[n, x], u[1, x], u[x, n], u[x, 1]
            v[0, x], v[n + 1, x], v[x, 0], v[x, n + 1] = v[n, x], v[1, x], v[x, n], v[x, 1]
        for y in prange(1, n + 1):
            for x in range(1, n + 1):
                a, b = u[y, x], v[y, x]
                around_a = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1] - four * a
                around_b = v[y - 1, x] + v[y + 1, x] + v[y, x - 1] + v[y, x + 1] - four * b
                reaction = a * b * b
                new_u[y, x] = a + (fast * around_a - reaction + feed * (one - a))
                new_v[y, x] = b + (slow * around_b + reaction - drain * b)
        u, new_u = new_u, u
        v, new_v = new_v, v
    last_u[:] = u[1:-1, 1:-1]
    last_v[:] = v[1:-1, 1:-1]


@program(_gray_scott_numpy, inputs=_spots, numba=_gray_scott_numba)
def gray_scott(steps: int = STEPS, n: int = 256) -> tuple[te.Tensor, ...]:
    """Two chemicals u[n, n], v[n, n] that diffuse and react on a torus: both after `steps` steps."""
    u, v = te.placeholder((n, n), name="u"), te.placeholder((n, n), name="v")
    shape = (steps + 1, n, n)
    state_u, state_v = te.placeholder(shape, name="state_u"), te.placeholder(shape, name="state_v")
    first_u = te.compute((1, n, n), lambda _, y, x: u[y, x], name="first_u")
    first_v = te.compute((1, n, n), lambda _, y, x: v[y, x], name="first_v")

    def laplace(state: te.Tensor, name: str) -> te.Tensor:
        torus = te.repeat_image(state, axes=(1, 2))
        return te.compute(
            shape,
            lambda t, y, x: (
                torus[t - 1, y - 1, x]
                + torus[t - 1, y + 1, x]
                + torus[t - 1, y, x - 1]
                + torus[t - 1, y, x + 1]
                - 4 * state[t - 1, y, x]
            ),
            name=name,
        )

    around_u, around_v = laplace(state_u, "around_u"), laplace(state_v, "around_v")
    reaction = te.compute(
        shape, lambda t, y, x: state_u[t - 1, y, x] * state_v[t - 1, y, x] * state_v[t - 1, y, x], name="reaction"
    )
    step_u = te.compute(
        shape,
        lambda t, y, x: (
            state_u[t - 1, y, x] + (0.16 * around_u[t, y, x] - reaction[t, y, x] + 0.035 * (1 - state_u[t - 1, y, x]))
        ),
        name="step_u",
    )
    step_v = te.compute(
        shape,
        lambda t, y, x: (
            state_v[t - 1, y, x] + (0.08 * around_v[t, y, x] + reaction[t, y, x] - 0.1 * state_v[t - 1, y, x])
        ),
        name="step_v",
    )
    all_u, all_v = te.scan([first_u, first_v], [step_u, step_v], [state_u, state_v], name="states")
    last_u = te.compute((n, n), lambda y, x: all_u[steps, y, x], name="last_u")
    last_v = te.compute((n, n), lambda y, x: all_v[steps, y, x], name="last_v")
    return u, v, last_u, last_v


def _bodies(n: int) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, 3)).astype("float32"), rng.uniform(0.5, 1.5, n).astype("float32")]


def _n_body_numpy(place: Array, mass: Array) -> Array:
    between = (place[None] - place[:, None]).astype("float64")
    weight = mass / ((between**2).sum(axis=2) + 0.01) ** 1.5
    return np.einsum("ij,ijc->ic", weight, between, optimize=True).astype("float32")


def _n_body_numba(place, mass, force):  # type: ignore[no-untyped-def]
    n, one, soft = len(place), np.float32(1), np.float32(0.01)
    px, py, pz = place[:, 0].copy(), place[:, 1].copy(), place[:, 2].copy()
    for i in prange(n):
        fx, fy, fz = np.float32(0), np.float32(0), np.float32(0)
        for j in range(n):
            dx, dy, dz = px[j] - px[i], py[j] - py[i], pz[j] - pz[i]
            inverse = one / np.sqrt(dx * dx + dy * dy + dz * dz + soft)
            weight = mass[j] * inverse * inverse * inverse
            fx += weight * dx
            fy += weight * dy
            fz += weight * dz
        force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


def _n_body_torch(torch, nn, place, mass):  # type: ignore[no-untyped-def]
    def run():  # type: ignore[no-untyped-def]
        distance = torch.cdist(place, place, compute_mode="donot_use_mm_for_euclid_dist")
        inverse = distance.square_().add_(0.01).rsqrt_()
        weight = (inverse * inverse).mul_(inverse).mul_(mass)
        return torch.addcmul(weight @ place, weight.sum(1, keepdim=True), place, value=-1)

    return run


@program(_n_body_numpy, inputs=_bodies, rtol=1e-3, atol=1e-2, numba=_n_body_numba, torch=_n_body_torch)
def n_body(n: int = 2048) -> tuple[te.Tensor, ...]:
    """place[n, 3], mass[n] -> force[n, 3]: each body is drawn to all others, softly where they are near."""
    place, mass = te.placeholder((n, 3), name="place"), te.placeholder((n,), name="mass")
    c, j = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, n), "j")
    between = te.compute((n, n, 3), lambda i, o, d: place[o, d] - place[i, d], name="between")
    square = te.compute((n, n), lambda i, o: te.sum(between[i, o, c] * between[i, o, c], axis=c), name="square")
    soft = te.compute((n, n), lambda i, o: square[i, o] + 0.01, name="soft")
    weight = te.compute((n, n), lambda i, o: mass[o] / (soft[i, o] * te.sqrt(soft[i, o])), name="weight")
    force = te.compute((n, 3), lambda i, d: te.sum(weight[i, j] * between[i, j, d], axis=j), name="force")
    return place, mass, force


def _cells(steps: int, n: int) -> list[Array]:
    return [(np.random.default_rng(0).random((n, n)) < 0.3).astype("uint8")]


def _life_numpy(a: Array) -> Array:
    for _ in range(STEPS):
        p = np.pad(a, 1, mode="wrap")
        rows = p[:-2] + p[1:-1] + p[2:]
        count = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - a
        a = ((count == 3) | ((count == 2) & (a == 1))).astype("uint8")
    return a


def _life_numba(first, out):  # type: ignore[no-untyped-def]
    n, bands = len(first), 8
    a, b = np.empty((n + 2, n + 2), np.uint8), np.empty((n + 2, n + 2), np.uint8)
    column = np.empty((bands, n + 2), np.uint8)
    a[1:-1, 1:-1] = first
    for _ in range(STEPS):
        for x in range(1, n + 1):
            a[x, 0], a[x, n + 1] = a[x, n], a[x, 1]
        a[0], a[n + 1] = a[n], a[1]
        for band in prange(bands):
            for y in range(1 + band * n // bands, 1 + (band + 1) * n // bands):
                for x in range(n + 2):
                    column[band, x] = a[y - 1, x] + a[y, x] + a[y + 1, x]
                for x in range(1, n + 1):
                    count = np.uint8(column[band, x - 1] + column[band, x] + column[band, x + 1])
                    b[y, x] = (count == 3) | ((count == 4) & (a[y, x] == 1))
        a, b = b, a
    out[:] = a[1:-1, 1:-1]


@program(_life_numpy, inputs=_cells, rtol=0, atol=0, numba=_life_numba)
def life(steps: int = STEPS, n: int = 512) -> tuple[te.Tensor, ...]:
    """Conway's game of life on a torus: cells[n, n] of uint8 after `steps` generations."""
    cells = te.placeholder((n, n), "uint8", name="cells")
    state = te.placeholder((steps + 1, n, n), "uint8", name="state")
    first = te.compute((1, n, n), lambda _, y, x: cells[y, x], name="first")
    torus = te.repeat_image(state, axes=(1, 2))
    dy, dx = te.reduce_axis((-1, 2), "dy"), te.reduce_axis((-1, 2), "dx")
    neighbours = te.compute(
        (steps + 1, n, n),
        lambda t, y, x: te.sum(torus[t - 1, y + dy, x + dx], axis=[dy, dx], where=te.any(dy != 0, dx != 0)),
        name="neighbours",
    )

    def live(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        alive = state[t - 1, y, x] == 1
        return te.any(neighbours[t, y, x] == 3, te.all(alive, neighbours[t, y, x] == 2)).astype("uint8")

    states = te.scan(first, te.compute((steps + 1, n, n), live, name="step"), state, name="states")
    return cells, te.compute((n, n), lambda y, x: states[steps, y, x], name="last")


def _fdtd_numpy(ex: Array, ey: Array, hz: Array) -> tuple[Array, Array, Array]:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for _ in range(STEPS):
        ey[1:] -= np.float32(0.5) * (hz[1:] - hz[:-1])
        ex[:, 1:] -= np.float32(0.5) * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= np.float32(0.7) * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def _fdtd_numba(first_ex, first_ey, first_hz, ex, ey, hz):  # type: ignore[no-untyped-def]
    n, half, rate = len(ex), np.float32(0.5), np.float32(0.7)
    ex[:], ey[:], hz[:] = first_ex, first_ey, first_hz
    for _ in range(STEPS):
        for y in prange(n):
            if y > 0:
                for x in range(n):
                    ey[y, x] -= half * (hz[y, x] - hz[y - 1, x])
            for x in range(1, n):
                ex[y, x] -= half * (hz[y, x] - hz[y, x - 1])
        for y in prange(n - 1):
            for x in range(n - 1):
                hz[y, x] -= rate * (ex[y, x + 1] - ex[y, x] + ey[y + 1, x] - ey[y, x])


@program(_fdtd_numpy, atol=1e-3, numba=_fdtd_numba)
def fdtd_2d(steps: int = STEPS, n: int = 256) -> tuple[te.Tensor, ...]:
    """Light in the plane by Yee's scheme: ex[n, n], ey[n, n] and hz[n, n] after `steps` steps."""
    names, shape = ("ex", "ey", "hz"), (steps + 1, n, n)
    fields = [te.placeholder((n, n), name=name) for name in names]
    ex, ey, hz = states = [te.placeholder(shape, name=f"state_{name}") for name in names]
    firsts = [
        te.compute((1, n, n), lambda _, y, x, f=f: f[y, x], name=f"first_{name}") for f, name in zip(fields, names)
    ]
    up, left = te.repeat_edge(hz, axes=(1,)), te.repeat_edge(hz, axes=(2,))
    new_ex = te.compute(
        shape, lambda t, y, x: ex[t - 1, y, x] - 0.5 * (hz[t - 1, y, x] - left[t - 1, y, x - 1]), name="new_ex"
    )
    new_ey = te.compute(
        shape, lambda t, y, x: ey[t - 1, y, x] - 0.5 * (hz[t - 1, y, x] - up[t - 1, y - 1, x]), name="new_ey"
    )
    right, down = te.repeat_edge(new_ex, axes=(2,)), te.repeat_edge(new_ey, axes=(1,))

    def turn(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        curl = right[t, y, x + 1] - new_ex[t, y, x] + down[t, y + 1, x] - new_ey[t, y, x]
        return te.if_then_else(te.all(y < n - 1, x < n - 1), hz[t - 1, y, x] - 0.7 * curl, hz[t - 1, y, x])

    new_hz = te.compute(shape, turn, name="new_hz")
    found = te.scan(firsts, [new_ex, new_ey, new_hz], states, name="states")
    last = [te.compute((n, n), lambda y, x, f=f: f[steps, y, x], name=f"last_{name}") for f, name in zip(found, names)]
    return *fields, *last

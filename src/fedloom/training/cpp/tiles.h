// Convolutions of 3x3 with fewer multiplications (Winograd), for images with many channels side by side.
//
// A square of 4x4 outputs is a function of 6x6 inputs. Along one axis four outputs of a kernel of three are a product of
// polynomials, seen from the other side, and that is six products at the points 0, 3/4, -3/4, 3/2, -3/2 and infinity in place of
// twelve. Along both axes it is 36 in place of 144. With matrices G (filters to points), B' (inputs to points), A' (points to outputs):
//     y = A' (G w G' . B' x B) A      dw = G' (B' x B . A dy A') G
// and dx is the first with filters that are mirrored. At every one of the 36 points the sum over channels is a product of two
// matrices, (squares, inputs) by (inputs, outputs), which is left to the caller. With these points the rounding error is about twice
// that of oneDNN's direct sum; the usual 0, 1, -1, 2, -2 would double it again.
//
// Points lie in arrays (36, size), a matrix in each row from its beginning on; `size` may be larger.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include <nanobind/stl/optional.h>

#include "simd.h"

namespace tiles {

namespace nb = nanobind;
using namespace fedloom;

using In = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using V = Vec<float>;

constexpr int L = Simd<float>::n, SIDE = 4, POINTS = 6, KERNEL = 3, TAPS = KERNEL * KERNEL;
constexpr float p = 0.75f, q = 1.5f, P = p * p, Q = q * q;  // points are 0, p, -p, q, -q and infinity
constexpr float AT_0 = 1 / (P * Q), AT_P = 1 / (2 * P * (P - Q)), AT_Q = 1 / (2 * Q * (Q - P));

static void require(bool good, const char* message) {
    if (!good) throw std::invalid_argument(message);
}

// B': six inputs to the points.
struct InputToPoints {
    static constexpr int n_in = POINTS, n_out = POINTS;
    static void run(const V* d, V* t) {
        t[0] = P * Q * d[0] - (P + Q) * d[2] + d[4];
        t[5] = P * Q * d[1] - (P + Q) * d[3] + d[5];
        V even = d[4] - Q * d[2], odd = p * (d[3] - Q * d[1]);
        t[1] = even + odd, t[2] = even - odd;
        even = d[4] - P * d[2], odd = q * (d[3] - P * d[1]);
        t[3] = even + odd, t[4] = even - odd;
    }
};

// A': the points to four outputs.
struct PointsToOutput {
    static constexpr int n_in = POINTS, n_out = SIDE;
    static void run(const V* t, V* y) {
        const V s1 = t[1] + t[2], u1 = t[1] - t[2], s2 = t[3] + t[4], u2 = t[3] - t[4];
        y[0] = t[0] + s1 + s2;
        y[1] = p * u1 + q * u2;
        y[2] = P * s1 + Q * s2;
        y[3] = p * P * u1 + q * Q * u2 + t[5];
    }
};

// A: four gradients of outputs to the points.
struct OutputToPoints {
    static constexpr int n_in = SIDE, n_out = POINTS;
    static void run(const V* c, V* t) {
        t[0] = c[0], t[5] = c[3];
        V even = c[0] + P * c[2], odd = p * (c[1] + P * c[3]);
        t[1] = even + odd, t[2] = even - odd;
        even = c[0] + Q * c[2], odd = q * (c[1] + Q * c[3]);
        t[3] = even + odd, t[4] = even - odd;
    }
};

// G: three weights to the points.
struct FilterToPoints {
    static constexpr int n_in = KERNEL, n_out = POINTS;
    static void run(const V* w, V* t) {
        t[0] = AT_0 * w[0], t[5] = w[2];
        V even = AT_P * (w[0] + P * w[2]), odd = AT_P * p * w[1];
        t[1] = even + odd, t[2] = even - odd;
        even = AT_Q * (w[0] + Q * w[2]), odd = AT_Q * q * w[1];
        t[3] = even + odd, t[4] = even - odd;
    }
};

// G': the points to three weights.
struct PointsToFilter {
    static constexpr int n_in = POINTS, n_out = KERNEL;
    static void run(const V* t, V* w) {
        const V s1 = AT_P * (t[1] + t[2]), u1 = AT_P * (t[1] - t[2]), s2 = AT_Q * (t[3] + t[4]), u2 = AT_Q * (t[3] - t[4]);
        w[0] = AT_0 * t[0] + s1 + s2;
        w[1] = p * u1 + q * u2;
        w[2] = P * s1 + Q * s2 + t[5];
    }
};

// One step along both axes: take(row, column) -> put(row, column, value).
template <class Step, class Take, class Put>
inline void both_axes(Take take, Put put) {
    V half[Step::n_in][Step::n_out];
    for (int r = 0; r < Step::n_in; ++r) {
        V d[Step::n_in];
        for (int c = 0; c < Step::n_in; ++c) d[c] = take(r, c);
        Step::run(d, half[r]);
    }
    for (int c = 0; c < Step::n_out; ++c) {
        V d[Step::n_in], t[Step::n_out];
        for (int r = 0; r < Step::n_in; ++r) d[r] = half[r][c];
        Step::run(d, t);
        for (int r = 0; r < Step::n_out; ++r) put(r, c, t[r]);
    }
}

// Images (n, height, width, channels) in squares; a square's number is (image, row, column).
struct Images {
    long n, height, width, channels;

    explicit Images(const nb::ndarray<nb::ro>& x)
        : n(long(x.shape(0))), height(long(x.shape(1))), width(long(x.shape(2))), channels(long(x.shape(3))) {}

    long rows() const { return (height + SIDE - 1) / SIDE; }
    long columns() const { return (width + SIDE - 1) / SIDE; }
    long size() const { return n * rows() * columns() * channels; }

    template <class F>
    void for_squares(F f) const {  // f(image, row and column of its first output, number of the square)
        long number = 0;
        for (long i = 0; i < n; ++i)
            for (long y = 0; y < height; y += SIDE)
                for (long x = 0; x < width; x += SIDE) f(i, y, x, number++);
    }
};

static void check(const nb::ndarray<nb::ro>& x, const nb::ndarray<nb::ro>& points) {
    require(x.ndim() == 4 && long(x.shape(3)) % L == 0, "images must be (n, height, width, channels), channels whole vectors");
    require(points.ndim() == 2 && points.shape(0) == POINTS * POINTS && long(points.shape(1)) >= Images(x).size(),
            "points must be (36, at least squares x channels)");
}

template <class Step>
static void to_points(In x, Out points) {
    check(nb::ndarray<nb::ro>(x), nb::ndarray<nb::ro>(points));
    const Images images{nb::ndarray<nb::ro>(x)};
    const long C = images.channels, step = long(points.shape(1)), first = Step::n_in == SIDE ? 0 : -1;
    const std::vector<float> zeros(C, 0.0f);
    const float* in = x.data();
    float* out = points.data();
    nb::gil_scoped_release release;
    images.for_squares([&](long image, long y, long x0, long number) {
        const float* from[Step::n_in][Step::n_in];
        for (long r = 0; r < Step::n_in; ++r)
            for (long c = 0; c < Step::n_in; ++c) {
                const long row = y + first + r, column = x0 + first + c;
                const bool inside = row >= 0 && row < images.height && column >= 0 && column < images.width;
                from[r][c] = inside ? in + ((image * images.height + row) * images.width + column) * C : zeros.data();
            }
        for (long v = 0; v < C; v += L)
            both_axes<Step>([&](int r, int c) { return load(from[r][c] + v); },
                            [&](int r, int c, V value) { store(out + (r * POINTS + c) * step + number * C + v, value); });
    });
}

static void points_to_images(In points, Out y, std::optional<In> bias) {
    check(nb::ndarray<nb::ro>(y), nb::ndarray<nb::ro>(points));
    const Images images{nb::ndarray<nb::ro>(y)};
    const long C = images.channels, step = long(points.shape(1));
    require(!bias || (bias->ndim() == 1 && long(bias->shape(0)) == C), "there must be one bias for each channel");
    const float *in = points.data(), *added = bias ? bias->data() : nullptr;
    float* out = y.data();
    nb::gil_scoped_release release;
    images.for_squares([&](long image, long y0, long x0, long number) {
        const long rows = std::min<long>(SIDE, images.height - y0), columns = std::min<long>(SIDE, images.width - x0);
        float* to = out + ((image * images.height + y0) * images.width + x0) * C;
        for (long v = 0; v < C; v += L) {
            const V b = added ? load(added + v) : V{};
            both_axes<PointsToOutput>([&](int r, int c) { return load(in + (r * POINTS + c) * step + number * C + v); },
                                      [&](int r, int c, V value) {
                                          if (r < rows && c < columns) store(to + (r * images.width + c) * C + v, value + b);
                                      });
        }
    });
}

static void check_filters(const nb::ndarray<nb::ro>& w, const nb::ndarray<nb::ro>& points) {
    require(w.ndim() == 4 && w.shape(2) == KERNEL && w.shape(3) == KERNEL && long(w.shape(1)) % L == 0,
            "filters must be (outputs, inputs, 3, 3), inputs whole vectors");
    require(points.ndim() == 2 && points.shape(0) == POINTS * POINTS && points.shape(1) >= w.shape(0) * w.shape(1),
            "points must be (36, at least outputs x inputs)");
}

// (outputs, inputs, 3, 3) to matrices (outputs, inputs). mirrored: as if the filters were turned by half.
static void filters_to_points(In w, Out points, bool mirrored) {
    check_filters(nb::ndarray<nb::ro>(w), nb::ndarray<nb::ro>(points));
    const long n = long(w.shape(0)) * long(w.shape(1)), step = long(points.shape(1));
    const float* in = w.data();
    float* out = points.data();
    nb::gil_scoped_release release;
    for (long i = 0; i < n; i += L) {
        float taps[TAPS][L];
        for (int lane = 0; lane < L; ++lane)
            for (int k = 0; k < TAPS; ++k) taps[mirrored ? TAPS - 1 - k : k][lane] = in[(i + lane) * TAPS + k];
        both_axes<FilterToPoints>([&](int r, int c) { return load(taps[r * KERNEL + c]); },
                                  [&](int r, int c, V value) { store(out + (r * POINTS + c) * step + i, value); });
    }
}

// The way back of gradients: matrices (outputs, inputs) to (outputs, inputs, 3, 3).
static void points_to_filters(In points, Out w) {
    check_filters(nb::ndarray<nb::ro>(w), nb::ndarray<nb::ro>(points));
    const long n = long(w.shape(0)) * long(w.shape(1)), step = long(points.shape(1));
    const float* in = points.data();
    float* out = w.data();
    nb::gil_scoped_release release;
    for (long i = 0; i < n; i += L) {
        V taps[TAPS];
        both_axes<PointsToFilter>([&](int r, int c) { return load(in + (r * POINTS + c) * step + i); },
                                  [&](int r, int c, V value) { taps[r * KERNEL + c] = value; });
        for (int lane = 0; lane < L; ++lane)
            for (int k = 0; k < TAPS; ++k) out[(i + lane) * TAPS + k] = taps[k][lane];
    }
}

static void define(nb::module_& m) {
    m.def("images_to_points", &to_points<InputToPoints>);
    m.def("gradients_to_points", &to_points<OutputToPoints>);
    m.def("points_to_images", &points_to_images, nb::arg("points"), nb::arg("images"), nb::arg("bias").none());
    m.def("filters_to_points", &filters_to_points);
    m.def("points_to_filters", &points_to_filters);
}

}  // namespace tiles

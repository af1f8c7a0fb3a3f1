// Codecs that draw for every value, in one pass over a row; part of kernels.cpp.
//
// The numbers are those of fedloom._random.bits_of: 32 bits each, the lower and then the upper half of the raw output of SFC64, whose
// state numpy has made of a key. What is computed with them is what fedloom.coding computes with numpy, to the bit.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace draws {

namespace nb = nanobind;

template <class T>
using Read = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Write = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr long PIECE = 2048;  // numbers that are drawn before they are used: an even number, in the first-level cache

static void require(bool good, const char* message) {
    if (!good) throw std::invalid_argument(message);
}

struct Draws {
    std::uint64_t a, b, c, counter;
    std::uint32_t numbers[PIECE];

    explicit Draws(const Read<std::uint64_t>& state) {
        require(state.shape(0) == 4, "a state of SFC64 has four numbers");
        a = state.data()[0], b = state.data()[1], c = state.data()[2], counter = state.data()[3];
    }

    void next() {
        for (long i = 0; i < PIECE; i += 2) {
            const std::uint64_t word = a + b + counter++;
            a = b ^ (b >> 11);
            b = c + (c << 3);
            c = ((c << 24) | (c >> 40)) + word;
            numbers[i] = std::uint32_t(word);
            numbers[i + 1] = std::uint32_t(word >> 32);
        }
    }
};

// The largest of some magnitudes, as bits: they have the same order as whole numbers, and NaN is larger than all of them.
static std::uint32_t largest_magnitude(const float* values, long n) {
    std::uint32_t most = 0;
    for (long i = 0; i < n; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, values + i, sizeof bits);
        bits &= 0x7FFFFFFF;
        most = std::max(most, bits);
    }
    return most;
}

// c = floor(x + u) of every value, and m of every bucket (fedloom.coding.qsgd). Whether all values are at most `beyond`; if not, what
// is written is of no use. last: the number of the last grid point; fraction: bits behind the point.
template <class Code>
static bool grid_points(Read<float> row, Read<std::uint64_t> state, long bucket, int last, int fraction, float smallest, float beyond,
                        Write<Code> codes, Write<float> largest) {
    const long n = long(row.shape(0));
    require(bucket >= 1 && fraction >= 1 && fraction <= 29 && last >= 1, "a bucket, a grid and a fraction that can be");
    require(long(codes.shape(0)) == n && long(largest.shape(0)) == (n + bucket - 1) / bucket, "as many codes and scales as there are");
    const double whole = double(last) * double(std::int64_t(1) << (fraction - 1));
    const std::int32_t half = std::int32_t(whole);
    const float* values = row.data();
    Code* out = codes.data();
    float* scales = largest.data();
    std::uint32_t limit;
    std::memcpy(&limit, &beyond, sizeof limit);
    Draws draws(state);
    nb::gil_scoped_release release;
    long used = PIECE;
    for (long begun = 0, k = 0; begun < n; begun += bucket, ++k) {
        const long end = std::min(n, begun + bucket);
        const std::uint32_t bits = largest_magnitude(values + begun, end - begun);
        if (bits > limit) return false;
        float most;
        std::memcpy(&most, &bits, sizeof most);
        most = most < smallest ? 0.0f : most;
        scales[k] = most;
        const float scale = most > 0.0f ? float(whole / double(most)) : 0.0f;
        for (long i = begun; i < end;) {
            if (used == PIECE) draws.next(), used = 0;
            const long m = std::min(end - i, PIECE - used);
            const std::uint32_t* numbers = draws.numbers + used;
            for (long j = 0; j < m; ++j) {
                const std::int32_t fixed = std::int32_t(values[i + j] * scale) + std::int32_t(numbers[j] >> (32 - fraction)) + half;
                out[i + j] = Code(std::min(std::max(fixed >> fraction, 0), last));  // m itself may be rounded up
            }
            i += m, used += m;
        }
    }
    return true;
}

// Which of n numbers are at least `low`, and these numbers, into arrays (n,) of which so many are filled as it returns.
static long at_least(Read<std::uint64_t> state, long n, std::uint32_t low, Write<std::int64_t> at, Write<std::uint32_t> found) {
    require(n >= 0 && long(at.shape(0)) == n + 1 && long(found.shape(0)) == n + 1, "room for all numbers and one more");
    Draws draws(state);
    std::int64_t* where = at.data();
    std::uint32_t* out = found.data();
    nb::gil_scoped_release release;
    long filled = 0;
    for (long begun = 0; begun < n; begun += PIECE) {
        draws.next();
        const long m = std::min(PIECE, n - begun);
        for (long j = 0; j < m; ++j) {  // everything is written down, and some is kept: no guess of the processor is wrong
            where[filled] = begun + j;
            out[filled] = draws.numbers[j];
            filled += draws.numbers[j] >= low;
        }
    }
    return filled;
}

// No array is converted: what is written into a copy would be lost.
template <class Code>
static void define_grid_points(nb::module_& m) {
    m.def("grid_points", &grid_points<Code>, nb::arg("row").noconvert(), nb::arg("state").noconvert(), nb::arg("bucket"), nb::arg("last"),
          nb::arg("fraction"), nb::arg("smallest"), nb::arg("beyond"), nb::arg("codes").noconvert(), nb::arg("largest").noconvert());
}

static void define(nb::module_& m) {
    define_grid_points<std::uint8_t>(m);
    define_grid_points<std::uint16_t>(m);
    m.def("at_least", &at_least, nb::arg("state").noconvert(), nb::arg("n"), nb::arg("low"), nb::arg("at").noconvert(),
          nb::arg("found").noconvert());
}

}  // namespace draws

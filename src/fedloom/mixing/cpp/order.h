// Order statistics of columns, and sums of rows; part of kernels.cpp.
//
// Rows (m, P) are m models. A column has m numbers, and there may be millions of columns: a vector's width of them is sorted side
// by side, by a network of compare-exchanges that is the same for all. Columns do not depend on each other, so neither the tiles nor
// the threads that they are shared out to can be seen in the result.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace order {

namespace nb = nanobind;

typedef float Lanes __attribute__((vector_size(FEDLOOM_VECTOR_BYTES), may_alias));
using Rows = nb::ndarray<const float, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<const float, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr long LANES = FEDLOOM_VECTOR_BYTES / sizeof(float);
constexpr long AT_ONCE = 4;             // vectors of columns that are sorted together: their exchanges do not wait for each other
constexpr long WIDTH = AT_ONCE * LANES;
constexpr long TILE = 4 * WIDTH;        // columns that are fetched together: longer runs of memory
constexpr long MOST_ROWS = 1 << 11;     // a network of m rows has about m log2(m)^2 / 4 exchanges
constexpr long PIECE = 1 << 10;         // columns of a sum at a time, in the first-level cache

struct Exchange {
    std::uint16_t low, high;
};

static void require(bool good, const char* message) {
    if (!good) throw std::invalid_argument(message);
}

// Batcher's merge exchange for any m (Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M), without the exchanges
// that cannot be seen in what is wanted.
static std::vector<Exchange> network(long m, std::vector<bool> wanted) {
    std::vector<Exchange> all, kept;
    long top = 1;
    while (2 * top < m) top *= 2;
    for (long p = m > 1 ? top : 0; p > 0; p /= 2)
        for (long q = top, r = 0, d = p;;) {
            for (long i = 0; i < m - d; ++i)
                if ((i & p) == r) all.push_back({std::uint16_t(i), std::uint16_t(i + d)});
            if (q == p) break;
            d = q - p, q /= 2, r = p;
        }
    for (auto e = all.rbegin(); e != all.rend(); ++e)
        if (wanted[e->low] || wanted[e->high]) {
            wanted[e->low] = wanted[e->high] = true;
            kept.push_back(*e);
        }
    std::reverse(kept.begin(), kept.end());
    return kept;
}

// The compiler does not see that these are one instruction each.
#if defined(__AVX512F__) && FEDLOOM_VECTOR_BYTES == 64
static inline Lanes least(Lanes a, Lanes b) { return _mm512_maskz_min_ps(__mmask16(-1), a, b); }  // the plain one makes GCC 12 warn
static inline Lanes most(Lanes a, Lanes b) { return _mm512_maskz_max_ps(__mmask16(-1), a, b); }
#elif defined(__AVX2__) && FEDLOOM_VECTOR_BYTES == 32
static inline Lanes least(Lanes a, Lanes b) { return _mm256_min_ps(a, b); }
static inline Lanes most(Lanes a, Lanes b) { return _mm256_max_ps(a, b); }
#elif defined(__x86_64__)
static inline Lanes least(Lanes a, Lanes b) { return _mm_min_ps(a, b); }
static inline Lanes most(Lanes a, Lanes b) { return _mm_max_ps(a, b); }
#else
static inline Lanes least(Lanes a, Lanes b) { return a < b ? a : b; }
static inline Lanes most(Lanes a, Lanes b) { return a < b ? b : a; }
#endif

// values (m, AT_ONCE).
static void sort(Lanes* values, const std::vector<Exchange>& exchanges) {
    for (const Exchange e : exchanges) {
        Lanes *low = values + e.low * AT_ONCE, *high = values + e.high * AT_ONCE;
        for (long i = 0; i < AT_ONCE; ++i) {
            const Lanes a = low[i], b = high[i];
            low[i] = least(a, b);
            high[i] = most(a, b);
        }
    }
}

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// work(sorted, column, n) for runs of columns: row r of sorted (m, WIDTH) has the r-th smallest of columns column..column+n-1.
template <class Work>
static void for_sorted(const float* rows, long m, long n_columns, const std::vector<Exchange>& exchanges, int n_threads, Work work) {
    const long n_tiles = (n_columns + TILE - 1) / TILE;
    std::atomic<long> next{0};
    auto run = [&] {
        std::unique_ptr<float, Free> owner(static_cast<float*>(std::aligned_alloc(FEDLOOM_VECTOR_BYTES, sizeof(float) * TILE * m)));
        float* tile = owner.get();  // (TILE / WIDTH, m, WIDTH)
        for (long t; (t = next++) < n_tiles;) {
            const long first = t * TILE, n = std::min(TILE, n_columns - first);
            for (long r = 0; r < m; ++r)
                for (long at = 0; at < n; at += WIDTH) {
                    float* to = tile + at * m + r * WIDTH;
                    const float* from = rows + r * n_columns + first + at;
                    if (n - at >= WIDTH) {
                        std::memcpy(to, from, sizeof(float) * WIDTH);
                    } else {
                        std::fill(std::copy_n(from, n - at, to), to + WIDTH, 0.0f);
                    }
                }
            for (long at = 0; at < n; at += WIDTH) {
                sort(reinterpret_cast<Lanes*>(tile + at * m), exchanges);
                work(tile + at * m, first + at, std::min(WIDTH, n - at));
            }
        }
    };
    std::vector<std::thread> helpers;
    for (long i = 1; i < std::min<long>(n_threads, n_tiles); ++i) helpers.emplace_back(run);
    run();
    for (auto& helper : helpers) helper.join();
}

static void check(const Rows& rows, int n_threads) {
    require(rows.shape(0) >= 1 && long(rows.shape(0)) <= MOST_ROWS, "rows must be at least one, and not too many for a network");
    require(n_threads >= 1, "threads must be at least 1");
}

template <class T>
static nb::ndarray<T, nb::numpy> make(std::vector<std::size_t> shape, T** data) {
    std::size_t n = 1;
    for (auto s : shape) n *= s;
    *data = new T[n ? n : 1];
    nb::capsule owner(*data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<T, nb::numpy>(*data, shape.size(), shape.data(), owner);
}

// (P,): the middle one, or half the sum of the two in the middle.
static nb::ndarray<float, nb::numpy> median(Rows rows, int n_threads) {
    check(rows, n_threads);
    const long m = long(rows.shape(0)), low = (m - 1) / 2, high = m / 2;
    std::vector<bool> wanted(m);
    wanted[low] = wanted[high] = true;
    const auto exchanges = network(m, wanted);
    float* out;
    auto result = make<float>({rows.shape(1)}, &out);
    nb::gil_scoped_release release;
    for_sorted(rows.data(), m, long(rows.shape(1)), exchanges, n_threads, [&](const float* sorted, long column, long n) {
        const float *a = sorted + low * WIDTH, *b = sorted + high * WIDTH;
        // Adding 0 leaves one zero only: which of -0 and 0 a network keeps depends on the order of rows.
        for (long i = 0; i < n; ++i) out[column + i] = (low == high ? a[i] : (a[i] + b[i]) * 0.5f) + 0.0f;
    });
    return result;
}

// (m, P): every column in ascending order.
static nb::ndarray<float, nb::numpy> sorted_columns(Rows rows, int n_threads) {
    check(rows, n_threads);
    const long m = long(rows.shape(0)), n_columns = long(rows.shape(1));
    const auto exchanges = network(m, std::vector<bool>(m, true));
    float* out;
    auto result = make<float>({rows.shape(0), rows.shape(1)}, &out);
    nb::gil_scoped_release release;
    for_sorted(rows.data(), m, n_columns, exchanges, n_threads, [&](const float* sorted, long column, long n) {
        for (long r = 0; r < m; ++r)
            for (long i = 0; i < n; ++i) out[r * n_columns + column + i] = sorted[r * WIDTH + i] + 0.0f;
    });
    return result;
}

// (P,): rows times weights, added one after the other from zero, as the training engine of the same build adds what it trains.
static nb::ndarray<double, nb::numpy> weighted_sum(const std::vector<Row>& rows, const std::vector<double>& weights) {
    require(!rows.empty() && rows.size() == weights.size(), "every row needs a weight");
    const long n = long(rows[0].shape(0));
    for (const Row& row : rows) require(long(row.shape(0)) == n, "rows must have the same length");
    double* sum;
    auto result = make<double>({std::size_t(n)}, &sum);
    std::fill_n(sum, n, 0.0);
    nb::gil_scoped_release release;
    for (long first = 0; first < n; first += PIECE) {
        const long end = std::min(n, first + PIECE);
        for (std::size_t r = 0; r < rows.size(); ++r) {
            const float* row = rows[r].data();
            const double w = weights[r];
            for (long i = first; i < end; ++i) sum[i] += w * row[i];
        }
    }
    return result;
}

static void define(nb::module_& m) {
    m.def("median", &median);
    m.def("sorted_columns", &sorted_columns);
    m.def("weighted_sum", &weighted_sum);
    m.attr("MOST_ROWS") = MOST_ROWS;
}

}  // namespace order

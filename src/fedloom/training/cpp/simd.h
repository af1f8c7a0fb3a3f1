// Vectors of a fixed number of bytes, written with the compiler's vector extension: the same source gives AVX-512, AVX2
// and baseline code, by compile flags. FEDLOOM_VECTOR_BYTES is 64, 32 or 16.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace fedloom {

template <class R, int bytes>
struct Bytes {
    typedef R vec __attribute__((vector_size(bytes)));
};

template <class R>
struct Simd {
    typedef R vec __attribute__((vector_size(FEDLOOM_VECTOR_BYTES)));
    typedef R loose __attribute__((vector_size(FEDLOOM_VECTOR_BYTES), aligned(alignof(R)), may_alias));
    typedef std::conditional_t<sizeof(R) == 4, std::int32_t, std::int64_t> integer;
    typedef integer ints __attribute__((vector_size(FEDLOOM_VECTOR_BYTES)));
    static constexpr int n = FEDLOOM_VECTOR_BYTES / static_cast<int>(sizeof(R));
};

template <class R>
using Vec = typename Simd<R>::vec;

template <class R>
inline Vec<R> load(const R* p) {
    return *reinterpret_cast<const typename Simd<R>::loose*>(p);
}

template <class R>
inline void store(R* p, Vec<R> v) {
    *reinterpret_cast<typename Simd<R>::loose*>(p) = v;
}

// The first n lanes; what lies behind them is read and written back.
template <class R>
inline void store_some(R* p, Vec<R> v, int n) {
    if (n == Simd<R>::n) {
        store(p, v);
        return;
    }
    typename Simd<R>::ints lane;
    for (int i = 0; i < Simd<R>::n; ++i) lane[i] = i;
    store<R>(p, lane < n ? v : load(p));
}

// The compiler would rather read memory again for every use.
template <class R>
inline Vec<R> in_register(Vec<R> v) {
#if defined(__x86_64__)
    asm("" : "+v"(v));
#endif
    return v;
}

template <class R>
inline Vec<R> splat(R x) {
    return x - Vec<R>{};
}

// Sum of the lanes, in halves: the same tree for every call.
template <class R, int bytes>
inline R lanes_sum_of(const typename Bytes<R, bytes>::vec& v) {
    if constexpr (bytes == 2 * sizeof(R)) {
        return v[0] + v[1];
    } else {
        typename Bytes<R, bytes / 2>::vec low, high;
        std::memcpy(&low, &v, bytes / 2);
        std::memcpy(&high, reinterpret_cast<const char*>(&v) + bytes / 2, bytes / 2);
        return lanes_sum_of<R, bytes / 2>(low + high);
    }
}

template <class R>
inline R lanes_sum(Vec<R> v) {
    return lanes_sum_of<R, FEDLOOM_VECTOR_BYTES>(v);
}

// Of every 2 h lanes the h low (or high) ones of a, then those of b.
template <class R, int h, bool high, int... I>
inline Vec<R> half_lanes(Vec<R> a, Vec<R> b, std::integer_sequence<int, I...>) {
    constexpr int n = Simd<R>::n;
#if defined(__clang__)
    return __builtin_shufflevector(a, b, (I / (2 * h) * 2 * h + I % h + (high ? h : 0) + (I % (2 * h) < h ? 0 : n))...);
#else
    typedef typename Simd<R>::integer integer;
    typename Simd<R>::ints from{integer(I / (2 * h) * 2 * h + I % h + (high ? h : 0) + (I % (2 * h) < h ? 0 : n))...};
    return __builtin_shuffle(a, b, from);
#endif
}

// The sums of the lanes of n vectors as one vector, with a third of the work of one by one; v is overwritten.
template <class R, int h = Simd<R>::n / 2>
inline Vec<R> lanes_sums_of(Vec<R>* v) {
    constexpr auto lanes = std::make_integer_sequence<int, Simd<R>::n>{};
    for (int j = 0; j < h; ++j) v[j] = half_lanes<R, h, false>(v[j], v[j + h], lanes) + half_lanes<R, h, true>(v[j], v[j + h], lanes);
    if constexpr (h > 1)
        return lanes_sums_of<R, h / 2>(v);
    else
        return v[0];
}

// n vectors of n lanes, rows and columns exchanged.
template <class R, int h = Simd<R>::n / 2>
inline void transpose_square(Vec<R>* v) {
    constexpr auto lanes = std::make_integer_sequence<int, Simd<R>::n>{};
    for (int block = 0; block < Simd<R>::n; block += 2 * h)
        for (int j = block; j < block + h; ++j) {
            const Vec<R> low = half_lanes<R, h, false>(v[j], v[j + h], lanes);
            v[j + h] = half_lanes<R, h, true>(v[j], v[j + h], lanes);
            v[j] = low;
        }
    if constexpr (h > 1) transpose_square<R, h / 2>(v);
}

// The sums of the lanes of each of N vectors.
template <class R, int N>
inline void lanes_sums(const Vec<R>* v, R* sums) {
    constexpr int L = Simd<R>::n, together = N % L >= L / 2 && L > 2 ? N : N / L * L;
#pragma GCC unroll 8
    for (int a = 0; a < together; a += L) {
        Vec<R> some[L];
        for (int j = 0; j < L; ++j) some[j] = a + j < N ? v[a + j] : Vec<R>{};
        const Vec<R> found = lanes_sums_of<R>(some);
        std::memcpy(sums + a, &found, std::min(L, N - a) * sizeof(R));
    }
    for (int a = together; a < N; ++a) sums[a] = lanes_sum<R>(v[a]);
}

template <class R>
void lanes_sums(const Vec<R>* v, int n, R* sums) {
    constexpr int L = Simd<R>::n;
    int a = 0;
    for (; a + L <= n; a += L) lanes_sums<R, L>(v + a, sums + a);
    for (; a < n; ++a) sums[a] = lanes_sum<R>(v[a]);
}

// Rows become columns: to[c][r] = from[r][c] for n_rows x n_columns numbers; of each row of `from`, `readable` numbers may be
// read. What is written behind a row of `to` is overwritten by the next rows or lies in its padding; nothing is written
// behind n_columns strides.
template <class R>
void transpose(const R* from, std::ptrdiff_t from_stride, int readable, int n_rows, int n_columns, R* to, std::ptrdiff_t to_stride) {
    constexpr int L = Simd<R>::n;
    if (readable < L) {
        for (int c = 0; c < n_columns; ++c)
            for (int r = 0; r < n_rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
        return;
    }
    for (int begin = 0; begin < n_columns; begin += L) {
        const int c = std::min(begin, readable - L), n_here = std::min(L, n_columns - c);
        for (int r = (n_rows - 1) / L * L; r >= 0; r -= L) {  // the piece that reaches behind a row goes first
            const int n = std::min(L, n_rows - r);
            Vec<R> v[L];
            for (int j = 0; j < L; ++j) v[j] = j < n ? load(from + (r + j) * from_stride + c) : Vec<R>{};
            transpose_square<R>(v);
            for (int j = 0; j < n_here; ++j) {
                R* row = to + (c + j) * to_stride + r;
                const std::ptrdiff_t room = (n_columns - c - j) * to_stride - r;
                if (room >= L)
                    store(row, v[j]);
                else
                    std::memcpy(row, &v[j], room * sizeof(R));
            }
        }
    }
}

// A short line of n numbers, by whole vectors: the last two may overlap.
template <class R>
inline void copy_line(const float* from, int n, R* to) {
    constexpr int L = Simd<float>::n;
    if constexpr (std::is_same_v<R, float>)
        if (n >= L) {
            for (int i = 0; i + L <= n; i += L) store(to + i, load(from + i));
            store(to + n - L, load(from + n - L));
            return;
        }
    std::copy_n(from, n, to);
}

inline int round_up(int x, int to) { return (x + to - 1) / to * to; }

// exp for x <= 0 (softmax after subtracting the maximum), relative error about 1e-7; below -87 it is 0.
inline void exp_not_positive(float* x, int n) {
    for (int i = 0; i < n; ++i) {
        float v = x[i] >= -87.0f ? x[i] : -87.0f;  // also for NaN
        float k = std::nearbyint(v * 1.44269504f);
        float r = v - k * 0.693359375f + k * 2.12194440e-4f;
        float p = 1.9875691500e-4f;
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        p = p * r * r + r + 1.0f;
        std::int32_t bits = (static_cast<std::int32_t>(k) + 127) << 23;
        float scale;
        std::memcpy(&scale, &bits, sizeof scale);
        x[i] = x[i] >= -87.0f ? p * scale : x[i] < -87.0f ? 0.0f : x[i];
    }
}

inline void exp_not_positive(double* x, int n) {
    for (int i = 0; i < n; ++i) x[i] = std::exp(x[i]);
}

}  // namespace fedloom

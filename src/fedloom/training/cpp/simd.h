// Vectors of a fixed number of bytes, written with the compiler's vector extension: the same source gives AVX-512, AVX2
// and baseline code, by compile flags. FEDLOOM_VECTOR_BYTES is 64, 32 or 16.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fedloom {

template <class R, int bytes>
struct Bytes {
    typedef R vec __attribute__((vector_size(bytes)));
};

template <class R>
struct Simd {
    typedef R vec __attribute__((vector_size(FEDLOOM_VECTOR_BYTES)));
    typedef R loose __attribute__((vector_size(FEDLOOM_VECTOR_BYTES), aligned(alignof(R)), may_alias));
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

template <class R>
inline void store_first(R* p, Vec<R> v, int n) {
    std::memcpy(p, &v, n * sizeof(R));
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

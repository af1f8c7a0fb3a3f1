// Dense layers: activations [sample][feature], weights transposed [input][output], rows padded with zeros to whole vectors.
// A wide first layer, with many inputs and few outputs, keeps its weights as they come, [output][input]: its outputs are dot
// products with the samples where they lie, and no vector is filled up with outputs that do not exist.
#pragma once

#include "simd.h"

namespace fedloom {

// y[b][.] += sum_i x[b][i] w[i][.] for TB samples and TV vectors.
template <class R, int TB, int TV>
inline void dense_tile(const R* x, int xs, const R* w, int ws, R* y, int ys, int n_in) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TB][TV];
    for (int b = 0; b < TB; ++b)
        for (int v = 0; v < TV; ++v) acc[b][v] = in_register<R>(load(y + b * ys + v * L));
    for (int i = 0; i < n_in; ++i, w += ws) {
        Vec<R> row[TV];
        for (int v = 0; v < TV; ++v) row[v] = in_register<R>(load(w + v * L));
        for (int b = 0; b < TB; ++b)
            for (int v = 0; v < TV; ++v) acc[b][v] = in_register<R>(acc[b][v] + x[b * xs + i] * row[v]);
    }
    for (int b = 0; b < TB; ++b)
        for (int v = 0; v < TV; ++v) store(y + b * ys + v * L, acc[b][v]);
}

template <class R, int TB, int TV>
void dense_rows(const R* x, int xs, const R* w, int ws, R* y, int ys, int n_in, int batch) {
    int b = 0;
    for (; b + TB <= batch; b += TB) dense_tile<R, TB, TV>(x + b * xs, xs, w, ws, y + b * ys, ys, n_in);
    if constexpr (TB > 3)
        for (; b + TB / 2 <= batch; b += TB / 2) dense_tile<R, TB / 2, TV>(x + b * xs, xs, w, ws, y + b * ys, ys, n_in);
    for (; b < batch; ++b) dense_tile<R, 1, TV>(x + b * xs, xs, w, ws, y + b * ys, ys, n_in);
}

// Tiles of vectors: so many samples (or inputs) with one, two or the most vectors at a time.
#if FEDLOOM_VECTOR_BYTES == 64
constexpr int most_vec = 4, one_vec = 10, two_vec = 6, many_vec = 5;
#else
constexpr int most_vec = 3, one_vec = 10, two_vec = 6, many_vec = 4;
#endif

// Calls f(first output, samples of a tile, its vectors) for columns of vectors that fill ws outputs.
template <class R, class F>
void each_columns(int ws, F f) {
    constexpr int L = Simd<R>::n;
    int v = 0;
    for (; v + most_vec * L <= ws; v += most_vec * L) f(v, std::integral_constant<int, many_vec>{}, std::integral_constant<int, most_vec>{});
    for (; v + 2 * L <= ws; v += 2 * L) f(v, std::integral_constant<int, two_vec>{}, std::integral_constant<int, 2>{});
    for (; v + L <= ws; v += L) f(v, std::integral_constant<int, one_vec>{}, std::integral_constant<int, 1>{});
}

// y = bias + x w. Inputs go in blocks: the weights of a block stay in the first-level cache for all samples.
template <class R>
void dense_forward(const R* x, int xs, const R* w, int ws, const R* bias, R* y, int ys, int n_in, int batch) {
    constexpr int block = 128;
    for (int b = 0; b < batch; ++b)
        for (int o = 0; o < ws; o += Simd<R>::n) store<R>(y + b * ys + o, bias ? load(bias + o) : Vec<R>{});
    each_columns<R>(ws, [&](int o, auto tb, auto tv) {
        for (int i = 0; i < n_in; i += block)
            dense_rows<R, decltype(tb)::value, decltype(tv)::value>(x + i, xs, w + std::ptrdiff_t(i) * ws + o, ws, y + o, ys,
                                                                    std::min(block, n_in - i), batch);
    });
}

// dx[b][i] = sum_o dy[b][o] w[i][o], for TB samples and TI inputs.
template <class R, int TB, int TI>
inline void dense_back_tile(const R* dy, int ys, const R* w, int ws, R* dx, int xs) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TB][TI];
    for (int b = 0; b < TB; ++b)
        for (int i = 0; i < TI; ++i) acc[b][i] = Vec<R>{};
    for (int o = 0; o < ws; o += L) {
        Vec<R> d[TB];
        for (int b = 0; b < TB; ++b) d[b] = in_register<R>(load(dy + b * ys + o));
        for (int i = 0; i < TI; ++i) {
            const Vec<R> row = in_register<R>(load(w + i * ws + o));
            for (int b = 0; b < TB; ++b) acc[b][i] = in_register<R>(acc[b][i] + d[b] * row);
        }
    }
    R sums[TB * TI];
    lanes_sums<R, TB * TI>(&acc[0][0], sums);
    for (int b = 0; b < TB; ++b) std::memcpy(dx + b * xs, sums + b * TI, TI * sizeof(R));
}

template <class R>
void dense_backward(const R* dy, int ys, const R* w, int ws, R* dx, int xs, int n_in, int batch) {
    constexpr int TB = FEDLOOM_VECTOR_BYTES == 64 ? 4 : 3, TI = 4;
    int i = 0;
    for (; i + TI <= n_in; i += TI) {
        int b = 0;
        for (; b + TB <= batch; b += TB) dense_back_tile<R, TB, TI>(dy + b * ys, ys, w + i * ws, ws, dx + b * xs + i, xs);
        for (; b + 2 <= batch; b += 2) dense_back_tile<R, 2, TI>(dy + b * ys, ys, w + i * ws, ws, dx + b * xs + i, xs);
        for (; b < batch; ++b) dense_back_tile<R, 1, TI>(dy + b * ys, ys, w + i * ws, ws, dx + b * xs + i, xs);
    }
    for (; i < n_in; ++i)
        for (int b = 0; b < batch; ++b) dense_back_tile<R, 1, 1>(dy + b * ys, ys, w + i * ws, ws, dx + b * xs + i, xs);
}

// Gradient of w[i][.]: sum_b x[b][i] dy[b][.], handed vector by vector to emit(offset in w, vector).
template <class R, int TI, int TV, class Emit>
inline void dense_gradient_tile(const R* x, int xs, const R* dy, int ys, int batch, std::ptrdiff_t at, int ws, Emit& emit) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TI][TV];
    for (int i = 0; i < TI; ++i)
        for (int v = 0; v < TV; ++v) acc[i][v] = Vec<R>{};
    for (int b = 0; b < batch; ++b) {
        Vec<R> d[TV];
        for (int v = 0; v < TV; ++v) d[v] = in_register<R>(load(dy + b * ys + v * L));
        for (int i = 0; i < TI; ++i)
            for (int v = 0; v < TV; ++v) acc[i][v] = in_register<R>(acc[i][v] + x[b * xs + i] * d[v]);
    }
    for (int i = 0; i < TI; ++i)
        for (int v = 0; v < TV; ++v) emit(at + std::ptrdiff_t(i) * ws + v * L, acc[i][v]);
}

template <class R, int TI, int TV, class Emit>
void dense_gradient_columns(const R* x, int xs, const R* dy, int ys, int n_in, int batch, int o, int ws, Emit& emit) {
    int i = 0;
    for (; i + TI <= n_in; i += TI)
        dense_gradient_tile<R, TI, TV>(x + i, xs, dy + o, ys, batch, std::ptrdiff_t(i) * ws + o, ws, emit);
    for (; i < n_in; ++i) dense_gradient_tile<R, 1, TV>(x + i, xs, dy + o, ys, batch, std::ptrdiff_t(i) * ws + o, ws, emit);
}

template <class R, class Emit>
void dense_gradient(const R* x, int xs, const R* dy, int ys, int n_in, int ws, int batch, Emit emit) {
    each_columns<R>(ws, [&](int o, auto ti, auto tv) {
        dense_gradient_columns<R, decltype(ti)::value, decltype(tv)::value>(x, xs, dy, ys, n_in, batch, o, ws, emit);
    });
}

#if FEDLOOM_VECTOR_BYTES == 64
constexpr int wide_samples = 5, wide_outputs = 5, wide_vectors = 4;
#else
constexpr int wide_samples = 2, wide_outputs = 5, wide_vectors = 2;
#endif

// y[b][o] = bias[o] + sum_i x[b][i] w[o][i] for TB samples and TO outputs; n_in fills whole vectors.
template <class R, int TB, int TO>
inline void wide_tile(const R* const* x, const R* w, const R* bias, R* y, int ys, int n_in) {
    Vec<R> acc[TB][TO];
    for (int b = 0; b < TB; ++b)
        for (int o = 0; o < TO; ++o) acc[b][o] = Vec<R>{};
    for (int i = 0; i < n_in; i += Simd<R>::n) {
        Vec<R> row[TO];
        for (int o = 0; o < TO; ++o) row[o] = in_register<R>(load(w + std::ptrdiff_t(o) * n_in + i));
        for (int b = 0; b < TB; ++b) {
            const Vec<R> sample = load(x[b] + i);
            for (int o = 0; o < TO; ++o) acc[b][o] += sample * row[o];
        }
    }
    R sums[TB * TO];
    lanes_sums<R, TB * TO>(&acc[0][0], sums);
    for (int b = 0; b < TB; ++b)
        for (int o = 0; o < TO; ++o) y[b * ys + o] = sums[b * TO + o] + (bias ? bias[o] : R(0));
}

template <class R, int TO>
void wide_outputs_of(const R* const* x, const R* w, const R* bias, R* y, int ys, int n_in, int batch) {
    int b = 0;
    for (; b + wide_samples <= batch; b += wide_samples) wide_tile<R, wide_samples, TO>(x + b, w, bias, y + b * ys, ys, n_in);
    for (; b < batch; ++b) wide_tile<R, 1, TO>(x + b, w, bias, y + b * ys, ys, n_in);
}

template <class R>
void wide_forward(const R* const* x, const R* w, const R* bias, R* y, int ys, int n_in, int n_out, int batch) {
    int o = 0;
    auto at = [&](int k) { return bias ? bias + k : nullptr; };
    for (; o + wide_outputs <= n_out; o += wide_outputs)
        wide_outputs_of<R, wide_outputs>(x, w + std::ptrdiff_t(o) * n_in, at(o), y + o, ys, n_in, batch);
    for (; o < n_out; ++o) wide_outputs_of<R, 1>(x, w + std::ptrdiff_t(o) * n_in, at(o), y + o, ys, n_in, batch);
}

// Gradient of w[o][.]: sum_b dy[b][o] x[b][.], handed to emit(offset in w, vector).
template <class R, int TO, int TV, class Emit>
inline void wide_gradient_tile(const R* const* x, int i, const R* dy, int ys, int batch, std::ptrdiff_t at, int n_in, Emit& emit) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TO][TV];
    for (int o = 0; o < TO; ++o)
        for (int v = 0; v < TV; ++v) acc[o][v] = Vec<R>{};
    for (int b = 0; b < batch; ++b) {
        Vec<R> sample[TV];
        for (int v = 0; v < TV; ++v) sample[v] = in_register<R>(load(x[b] + i + v * L));
        for (int o = 0; o < TO; ++o)
            for (int v = 0; v < TV; ++v) acc[o][v] += dy[b * ys + o] * sample[v];
    }
    for (int o = 0; o < TO; ++o)
        for (int v = 0; v < TV; ++v) emit(at + std::ptrdiff_t(o) * n_in + i + v * L, acc[o][v]);
}

// All outputs of TV vectors of inputs, which stay in the first-level cache from the first to the last.
template <class R, int TV, class Emit>
void wide_gradient_columns(const R* const* x, int i, const R* dy, int ys, int n_in, int n_out, int batch, Emit& emit) {
    int o = 0;
    for (; o + wide_outputs <= n_out; o += wide_outputs)
        wide_gradient_tile<R, wide_outputs, TV>(x, i, dy + o, ys, batch, std::ptrdiff_t(o) * n_in, n_in, emit);
    for (; o < n_out; ++o) wide_gradient_tile<R, 1, TV>(x, i, dy + o, ys, batch, std::ptrdiff_t(o) * n_in, n_in, emit);
}

// next: n_next samples that are needed after these; they come closer meanwhile.
template <class R, class Emit>
void wide_gradient(const R* const* x, const R* dy, int ys, int n_in, int n_out, int batch, const R* const* next, int n_next, Emit emit) {
    constexpr int L = Simd<R>::n, line = 64 / int(sizeof(R));
    for (int i = 0, fetched = 0; i < n_in;) {
        for (const int end = std::min(n_in, i + wide_vectors * L); fetched < end; fetched += line)
            for (int b = 0; b < n_next; ++b) __builtin_prefetch(next[b] + fetched, 0, 2);
        if (i + wide_vectors * L <= n_in) {
            wide_gradient_columns<R, wide_vectors>(x, i, dy, ys, n_in, n_out, batch, emit);
            i += wide_vectors * L;
        } else {
            wide_gradient_columns<R, 1>(x, i, dy, ys, n_in, n_out, batch, emit);
            i += L;
        }
    }
}

}  // namespace fedloom

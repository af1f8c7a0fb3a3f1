// Dense layers: activations [sample][feature], weights transposed [input][output], rows padded with zeros to whole vectors.
#pragma once

#include "simd.h"

namespace fedloom {

// y[b][.] = bias + sum_i x[b][i] w[i][.] for TB samples and TV vectors.
template <class R, int TB, int TV>
inline void dense_tile(const R* x, int xs, const R* w, int ws, const R* bias, R* y, int ys, int n_in) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TB][TV];
    for (int b = 0; b < TB; ++b)
        for (int v = 0; v < TV; ++v) acc[b][v] = bias ? load(bias + v * L) : Vec<R>{};
    for (int i = 0; i < n_in; ++i, w += ws) {
        Vec<R> row[TV];
        for (int v = 0; v < TV; ++v) row[v] = load(w + v * L);
        for (int b = 0; b < TB; ++b)
            for (int v = 0; v < TV; ++v) acc[b][v] += x[b * xs + i] * row[v];
    }
    for (int b = 0; b < TB; ++b)
        for (int v = 0; v < TV; ++v) store(y + b * ys + v * L, acc[b][v]);
}

template <class R, int TB, int TV>
void dense_rows(const R* x, int xs, const R* w, int ws, const R* bias, R* y, int ys, int n_in, int batch) {
    int b = 0;
    for (; b + TB <= batch; b += TB) dense_tile<R, TB, TV>(x + b * xs, xs, w, ws, bias, y + b * ys, ys, n_in);
    if constexpr (TB > 4)
        for (; b + TB / 2 <= batch; b += TB / 2)
            dense_tile<R, TB / 2, TV>(x + b * xs, xs, w, ws, bias, y + b * ys, ys, n_in);
    for (; b < batch; ++b) dense_tile<R, 1, TV>(x + b * xs, xs, w, ws, bias, y + b * ys, ys, n_in);
}

#if FEDLOOM_VECTOR_BYTES == 64
constexpr int one_vec = 10, two_vec = 6, four_vec = 5;
#else
constexpr int one_vec = 10, two_vec = 5, four_vec = 2;
#endif

template <class R>
void dense_forward(const R* x, int xs, const R* w, int ws, const R* bias, R* y, int ys, int n_in, int batch) {
    constexpr int L = Simd<R>::n;
    int v = 0;
    auto at = [&](int o) { return bias ? bias + o : nullptr; };
    for (; v + 4 * L <= ws; v += 4 * L) dense_rows<R, four_vec, 4>(x, xs, w + v, ws, at(v), y + v, ys, n_in, batch);
    for (; v + 2 * L <= ws; v += 2 * L) dense_rows<R, two_vec, 2>(x, xs, w + v, ws, at(v), y + v, ys, n_in, batch);
    for (; v + L <= ws; v += L) dense_rows<R, one_vec, 1>(x, xs, w + v, ws, at(v), y + v, ys, n_in, batch);
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
        for (int b = 0; b < TB; ++b) d[b] = load(dy + b * ys + o);
        for (int i = 0; i < TI; ++i) {
            Vec<R> row = load(w + i * ws + o);
            for (int b = 0; b < TB; ++b) acc[b][i] += d[b] * row;
        }
    }
    for (int b = 0; b < TB; ++b)
        for (int i = 0; i < TI; ++i) dx[b * xs + i] = lanes_sum<R>(acc[b][i]);
}

template <class R>
void dense_backward(const R* dy, int ys, const R* w, int ws, R* dx, int xs, int n_in, int batch) {
    constexpr int TB = FEDLOOM_VECTOR_BYTES == 64 ? 5 : 3, TI = FEDLOOM_VECTOR_BYTES == 64 ? 4 : 3;
    int i = 0;
    for (; i + TI <= n_in; i += TI) {
        int b = 0;
        for (; b + TB <= batch; b += TB) dense_back_tile<R, TB, TI>(dy + b * ys, ys, w + i * ws, ws, dx + b * xs + i, xs);
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
        for (int v = 0; v < TV; ++v) d[v] = load(dy + b * ys + v * L);
        for (int i = 0; i < TI; ++i)
            for (int v = 0; v < TV; ++v) acc[i][v] += x[b * xs + i] * d[v];
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
    constexpr int L = Simd<R>::n;
    int o = 0;
    for (; o + 4 * L <= ws; o += 4 * L) dense_gradient_columns<R, four_vec, 4>(x, xs, dy, ys, n_in, batch, o, ws, emit);
    for (; o + 2 * L <= ws; o += 2 * L) dense_gradient_columns<R, two_vec, 2>(x, xs, dy, ys, n_in, batch, o, ws, emit);
    for (; o + L <= ws; o += L) dense_gradient_columns<R, one_vec, 1>(x, xs, dy, ys, n_in, batch, o, ws, emit);
}

}  // namespace fedloom

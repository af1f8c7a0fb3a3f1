// Convolution of 3 or 5 rows with fewer multiplications (Winograd, by Cook and Toom's construction), along the rows only.
//
// M = 9 - K output rows of a kernel of K rows are the product of two polynomials, seen from the other side: with both taken
// to eight points (0, 1, -1, 2, -2, 1/2, -1/2, infinity) it is eight products in place of M K. All three products of a layer
// follow from one identity, with matrices G (weights to points), B' (input rows to points) and A' (points to output rows):
//     y = A' (G w . B' x)      dx = B (G w . A dy)      dw = G' (B' x . A dy)
// Columns and batch are as in conv.h: whole lines go to the points by plain vector arithmetic. These points keep the rounding
// error within three times that of the direct sum.
#pragma once

#include "conv.h"

namespace fedloom {

constexpr int n_points = 8;
constexpr int most_columns = 8;  // of a kernel
constexpr int at_points_size = n_points * most_columns;

// Points 1 + 2 j and 2 + 2 j are p and -p; G divides by the product of the differences to the other points.
constexpr double pair_point(int j) { return j == 0 ? 1.0 : j == 1 ? 2.0 : 0.5; }
constexpr double pair_scale(int j) { return j == 0 ? -2.0 / 9 : j == 1 ? 1.0 / 90 : 32.0 / 45; }
constexpr double power(double p, int n) { return n == 0 ? 1.0 : p * power(p, n - 1); }

// B': eight rows to the points.
template <class R, class V>
inline void input_to_points(const V (&d)[n_points], V (&t)[n_points]) {
    t[0] = (d[0] - d[6]) + R(5.25) * (d[4] - d[2]);
    t[7] = (d[7] - d[1]) + R(5.25) * (d[3] - d[5]);
    V even = (d[2] + d[6]) - R(4.25) * d[4], odd = (d[1] + d[5]) - R(4.25) * d[3];
    t[1] = even + odd, t[2] = even - odd;
    even = d[6] + R(0.25) * d[2] - R(1.25) * d[4], odd = R(0.5) * d[1] - R(2.5) * d[3] + R(2) * d[5];
    t[3] = even + odd, t[4] = even - odd;
    even = d[6] + R(4) * d[2] - R(5) * d[4], odd = R(2) * d[1] - R(2.5) * d[3] + R(0.5) * d[5];
    t[5] = even + odd, t[6] = even - odd;
}

// B, its transpose.
template <class R, class V>
inline void points_to_input(const V (&t)[n_points], V (&d)[n_points]) {
    const V s1 = t[1] + t[2], u1 = t[1] - t[2], s2 = t[3] + t[4], u2 = t[3] - t[4], s3 = t[5] + t[6], u3 = t[5] - t[6];
    d[0] = t[0];
    d[1] = u1 + R(0.5) * u2 + R(2) * u3 - t[7];
    d[2] = s1 + R(0.25) * s2 + R(4) * s3 - R(5.25) * t[0];
    d[3] = R(5.25) * t[7] - R(4.25) * u1 - R(2.5) * (u2 + u3);
    d[4] = R(5.25) * t[0] - R(4.25) * s1 - R(1.25) * s2 - R(5) * s3;
    d[5] = u1 + R(2) * u2 + R(0.5) * u3 - R(5.25) * t[7];
    d[6] = s1 + s2 + s3 - t[0];
    d[7] = t[7];
}

// A: the polynomial with coefficients c at the points.
template <class R, int N, class V>
inline void at_points(const V (&c)[N], V (&t)[n_points]) {
    t[0] = c[0], t[7] = c[N - 1];
    for (int j = 0; j < 3; ++j) {
        V even = c[0], odd = R(pair_point(j)) * c[1];
        for (int i = 2; i < N; i += 2) even += R(power(pair_point(j), i)) * c[i];
        for (int i = 3; i < N; i += 2) odd += R(power(pair_point(j), i)) * c[i];
        t[1 + 2 * j] = even + odd, t[2 + 2 * j] = even - odd;
    }
}

// A', its transpose.
template <class R, int N, class V>
inline void from_points(const V (&t)[n_points], V (&c)[N]) {
    V sum[3], difference[3];
    for (int j = 0; j < 3; ++j) sum[j] = t[1 + 2 * j] + t[2 + 2 * j], difference[j] = t[1 + 2 * j] - t[2 + 2 * j];
    for (int i = 0; i < N; ++i) {
        c[i] = i % 2 ? difference[0] : sum[0];
        for (int j = 1; j < 3; ++j) c[i] += R(power(pair_point(j), i)) * (i % 2 ? difference[j] : sum[j]);
    }
    c[0] += t[0], c[N - 1] += t[7];
}

// What stands between A and G.
template <class R, class V>
inline void scale_points(V (&t)[n_points]) {
    for (int j = 0; j < 3; ++j) t[1 + 2 * j] *= R(pair_scale(j)), t[2 + 2 * j] *= R(pair_scale(j));
}

// Bands of M rows at the points: [channel][band][point][line], whole lines with their borders. INPUT: B' of the 8 rows from
// M band on; else A of the M rows. Rows from n_rows on count as zero.
template <class R, int M, bool INPUT>
void bands_to_points(const Map<R>& in, int n_channels, int n_rows, int n_bands, const Map<R>& out) {
    constexpr int L = Simd<R>::n, N = INPUT ? n_points : M;
    for (int c = 0; c < n_channels; ++c)
        for (int band = 0; band < n_bands; ++band) {
            const int y = band * M, have = std::min(N, n_rows - y);
            R* to = out.at(c, band * n_points);
            for (int v = 0; v < out.row; v += L) {
                Vec<R> d[N], t[n_points];
                if (have == N)
                    for (int r = 0; r < N; ++r) d[r] = load(in.at(c, y + r) + v);
                else
                    for (int r = 0; r < N; ++r) d[r] = r < have ? load(in.at(c, y + r) + v) : Vec<R>{};
                if constexpr (INPUT)
                    input_to_points<R>(d, t);
                else
                    at_points<R, M>(d, t);
                for (int k = 0; k < n_points; ++k) store(to + k * out.row + v, t[k]);
            }
        }
}

// One band, TO channels and one vector: all points stay in registers from the products to the rows. kx runs over from..to-1.
// BACK: kernels are mirrored, and the first rows are added to what the band before has left there.
template <class R, int TO, int M, bool BACK>
inline void winograd_tile(const Map<R>& in, int band, int n_in, int kw, int batch, const R* w, const R* bias, R* out,
                          std::ptrdiff_t channel, const std::ptrdiff_t* rows, int lane, int last, int from, int to) {
    Vec<R> acc[TO][n_points];
    for (int t = 0; t < TO; ++t)
        for (int k = 0; k < n_points; ++k) acc[t][k] = Vec<R>{};
    for (int i = 0; i < n_in; ++i, w += TO * at_points_size) {
        const R* line = in.at(i, band * n_points) + lane + from * batch;
        const R* tap = w + (BACK ? kw - 1 - from : from);
        for (int kx = from; kx < to; ++kx, line += batch, tap += BACK ? -1 : 1)
            for (int k = 0; k < n_points; ++k) {
                const Vec<R> x = in_register<R>(load(line + k * in.row));
                for (int t = 0; t < TO; ++t) acc[t][k] += tap[t * at_points_size + k * most_columns] * x;
            }
    }
#pragma GCC unroll 3
    for (int t = 0; t < TO; ++t) {
        constexpr int N = BACK ? n_points : M;
        Vec<R> y[N];
        if constexpr (BACK)
            points_to_input<R>(acc[t], y);
        else
            from_points<R, M>(acc[t], y);
        R* to_channel = out + t * channel + lane;
        for (int r = 0; r < N; ++r) {
            R* to_row = to_channel + rows[r];
            if (!BACK && bias) y[r] += bias[t];
            if (BACK && r < n_points - M && band > 0) y[r] += load(to_row);
            store_some(to_row, y[r], last);
        }
    }
}

#if FEDLOOM_VECTOR_BYTES == 64
constexpr int winograd_channels = 3;
#else
constexpr int winograd_channels = 1;
#endif
// With the 16 registers of AVX2 one channel at a time waits for loads: forward, the direct sum is faster (measured).
constexpr bool forward_at_points = FEDLOOM_VECTOR_BYTES != 32;

// Group g of n channels in groups of at most winograd_channels and nearly equal size: its first channel.
inline int group_start(int g, int n) {
    const int n_groups = (n + winograd_channels - 1) / winograd_channels;
    return int(std::int64_t(g) * n / n_groups);
}

// G: a filter [K][kw] to the points [point][most_columns], and G': a gradient back. Whole vectors are read and written, in
// rising order of rows and filters: what goes behind one is overwritten by the next, and a vector behind the end is ours.
template <class R, int K>
inline void filter_to_points(const R* filter, int kw, R* points) {
    constexpr int step = std::min(Simd<R>::n, most_columns);
    for (int v = 0; v < kw; v += step) {
        Vec<R> w[K], t[n_points];
        for (int ky = 0; ky < K; ++ky) w[ky] = load(filter + ky * kw + v);
        at_points<R, K>(w, t);
        scale_points<R>(t);
        for (int k = 0; k < n_points; ++k) store(points + k * most_columns + v, t[k]);
    }
}

template <class R, int K>
inline void filter_from_points(const R* points, int kw, R* filter) {
    constexpr int step = std::min(Simd<R>::n, most_columns);
    for (int v = (kw - 1) / step * step; v >= 0; v -= step) {  // the piece that reaches behind a row goes first
        Vec<R> w[K], t[n_points];
        for (int k = 0; k < n_points; ++k) t[k] = load(points + k * most_columns + v);
        scale_points<R>(t);
        from_points<R, K>(t, w);
        for (int ky = 0; ky < K; ++ky) store(filter + ky * kw + v, w[ky]);
    }
}

// All filters at the points, grouped by output channels [group][i][channel of the group]; filter(o, i) points at a filter.
template <class R, int K, class Filter>
void pack_at_points(int n_in, int n_out, int kw, R* packed, Filter filter) {
    for (int g = 0, o = 0; o < n_out; o = group_start(++g, n_out))
        for (int i = 0; i < n_in; ++i)
            for (int t = o; t < group_start(g + 1, n_out); ++t, packed += at_points_size)
                filter_to_points<R, K>(filter(t, i), kw, packed);
}

// All bands of the output, from bands `in` at the points. Row 0 of `out` is row `skip` of the bands; what falls
// outside its n_rows rows goes to row `spare`, which nobody reads. Columns of `in` before `inside` and from
// `inside + n_inside` on are border.
template <class R, int M, bool BACK>
void winograd(const Map<R>& in, const Map<R>& out, const R* packed, const R* bias, int n_in, int n_out, int n_bands,
              int skip, int n_rows, int spare, int columns, int kw, int batch, int inside, int n_inside) {
    constexpr int L = Simd<R>::n;
    const int length = columns * batch;
    for (int g = 0, o = 0; o < n_out; o = group_start(++g, n_out)) {
        const int n = group_start(g + 1, n_out) - o;
        for (int band = 0; band < n_bands; ++band) {
            std::ptrdiff_t rows[n_points];
            for (int r = 0; r < n_points; ++r) {
                const int y = band * M + r - skip;
                rows[r] = (y < 0 || y >= n_rows ? spare : y) * out.row;
            }
            for (int lane = 0; lane < length; lane += L) {
                const int last = std::min(L, length - lane);
                const int from = std::max(0, inside - (lane + L - 1) / batch);
                const int to = std::max(from, std::min(kw, inside + n_inside - lane / batch));
                auto tile = [&](auto channels) {
                    winograd_tile<R, decltype(channels)::value, M, BACK>(in, band, n_in, kw, batch, packed, bias ? bias + o : nullptr,
                                                                         out.at(o, 0), out.channel, rows, lane, last, from, to);
                };
                if (n == 1) tile(std::integral_constant<int, 1>{});
                if constexpr (winograd_channels > 1) {
                    if (n == 2) tile(std::integral_constant<int, 2>{});
                    if (n == 3) tile(std::integral_constant<int, 3>{});
                }
            }
        }
        packed += std::ptrdiff_t(n_in) * n * at_points_size;
    }
}

// grad[o][i][point][kx] += sum over bands and . of d[o][band][point][.] in[i][band][point][. + kx batch].
template <class R>
void winograd_gradient(const Map<R>& in, const Map<R>& d, int n_in, int n_out, int n_bands, int columns, int kw, int batch, R* grad) {
    auto at = [](const Map<R>& m, int row) { return Map<R>{m.origin + row * m.row, n_points * m.row, m.channel}; };
    for (int k = 0; k < n_points; ++k)
        convolve_gradient<R>(at(in, k), at(d, k), n_in, n_out, n_bands, columns, 1, kw, batch, grad + k * most_columns, at_points_size);
}

}  // namespace fedloom

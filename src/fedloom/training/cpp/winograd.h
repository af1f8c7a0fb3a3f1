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
constexpr int most_columns = tap_block;  // of a kernel
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

// Bands of M rows at the points: [point][channel][band][line], whole lines with their borders, points `size` numbers apart.
template <class R>
struct Points {
    Map<R> first;
    std::ptrdiff_t size;
    Map<R> at(int point) const { return {first.origin + point * size, first.row, first.channel}; }
    Points moved(std::ptrdiff_t by) const { return {{first.origin + by, first.row, first.channel}, size}; }
};

// Sizes of points in memory are no multiple of a page: lines that are used together must not fall on the same place of a cache.
template <class R>
Points<R> points_in(R* memory, int n_channels, int n_bands, std::ptrdiff_t row) {
    return {{memory, row, n_bands * row}, n_channels * n_bands * row + (n_channels * n_bands * row % 128 ? 0 : 16)};
}

// INPUT: B' of the 8 rows from M band on; else A of the M rows. Rows from n_rows on count as zero.
template <class R, int M, bool INPUT>
void bands_to_points(const Map<R>& in, int n_channels, int n_rows, int n_bands, const Points<R>& out) {
    constexpr int L = Simd<R>::n, N = INPUT ? n_points : M;
    for (int c = 0; c < n_channels; ++c)
        for (int band = 0; band < n_bands; ++band) {
            const int y = band * M, have = std::min(N, n_rows - y);
            const R* from = in.at(c, y);
            R* to = out.first.at(c, band);
            for (int v = 0; v < out.first.row; v += L) {
                Vec<R> d[N], t[n_points];
                if (have == N)
                    for (int r = 0; r < N; ++r) d[r] = load(from + r * in.row + v);
                else
                    for (int r = 0; r < N; ++r) d[r] = r < have ? load(from + r * in.row + v) : Vec<R>{};
                if constexpr (INPUT)
                    input_to_points<R>(d, t);
                else
                    at_points<R, M>(d, t);
                for (int k = 0; k < n_points; ++k) store(to + k * out.size + v, t[k]);
            }
        }
}

// With the 16 registers of AVX2 the direct sum is faster forward (measured).
constexpr bool forward_at_points = FEDLOOM_VECTOR_BYTES != 32;

// G: a filter [K][kw] to rows of most_columns, one for each point, `step` apart; BACK: mirrored. Whole vectors are read: there
// must be one behind the last filter.
template <class R, int K, bool BACK>
inline void filter_to_points(const R* filter, int kw, R* points, std::ptrdiff_t step) {
    constexpr int lanes = std::min(Simd<R>::n, most_columns);
    for (int v = 0; v < kw; v += lanes) {
        Vec<R> w[K], t[n_points];
        for (int ky = 0; ky < K; ++ky) w[ky] = load(filter + ky * kw + v);
        at_points<R, K>(w, t);
        scale_points<R>(t);
        for (int k = 0; k < n_points; ++k) std::memcpy(points + k * step + v, &t[k], lanes * sizeof(R));
    }
    if constexpr (BACK)
        for (int k = 0; k < n_points; ++k) std::reverse(points + k * step, points + k * step + kw);
}

// G': a gradient at the points, `step` numbers apart, to a filter. Whole vectors are read and written, in rising order of rows and
// filters: what goes behind one is overwritten by the next, and a vector behind the end is ours.
template <class R, int K>
inline void filter_from_points(const R* points, std::ptrdiff_t step, int kw, R* filter) {
    constexpr int lanes = std::min(Simd<R>::n, most_columns);
    for (int v = (kw - 1) / lanes * lanes; v >= 0; v -= lanes) {  // the piece that reaches behind a row goes first
        Vec<R> w[K], t[n_points];
        for (int k = 0; k < n_points; ++k) t[k] = load(points + k * step + v);
        scale_points<R>(t);
        from_points<R, K>(t, w);
        for (int ky = 0; ky < K; ++ky) store(filter + ky * kw + v, w[ky]);
    }
}

// All filters at the points, in groups of at most `most` output channels: [group][point][i][channel of the group][column], as
// tap_tile wants them; filter(o, i) points at a filter.
template <class R, int K, bool BACK, class Filter>
void pack_at_points(int n_in, int n_out, int most, int kw, R* packed, Filter filter) {
    for (int o = 0; o < n_out; o += most) {
        const int n = std::min(most, n_out - o), step = n_in * n * tap_block;
        for (int i = 0; i < n_in; ++i)
            for (int t = 0; t < n; ++t) filter_to_points<R, K, BACK>(filter(o + t, i), kw, packed + (i * n + t) * tap_block, step);
        packed += n_points * step;
    }
}

// From the points [point][channel][vector] of a tile to the rows of the output. BACK: the first rows are added to what the
// band before has left there.
template <class R, int M, bool BACK>
void points_to_rows(const R* points, int n, int n_vec, const R* bias, R* out, std::ptrdiff_t channel, const std::ptrdiff_t* rows,
                    bool add, int last) {
    constexpr int L = Simd<R>::n, N = BACK ? n_points : M;
    const int step = n * n_vec * L;
    for (int t = 0; t < n; ++t)
        for (int v = 0; v < n_vec; ++v, points += L) {
            Vec<R> at[n_points], y[N];
            for (int k = 0; k < n_points; ++k) at[k] = load(points + k * step);
            if constexpr (BACK)
                points_to_input<R>(at, y);
            else
                from_points<R, M>(at, y);
            for (int r = 0; r < N; ++r) {
                R* to = out + t * channel + rows[r] + v * L;
                if (!BACK && bias) y[r] += bias[t];
                if (BACK && r < n_points - M && add) y[r] += load(to);
                store_some(to, y[r], v + 1 < n_vec ? L : last);
            }
        }
}

constexpr int tiles_of_point = 4;  // before the next point: they share most of their lines

// All bands of the output, from bands `in` at the points and packed filters. `taps` has room for tiles_of_point rows of n_in kernels. Row 0 of `out` is row `skip` of the bands; what
// falls outside its n_rows rows goes to row `spare`, which nobody reads. Columns of `in` before `inside` and from
// `inside + n_inside` on are border.
template <class R, int M, bool BACK>
void winograd(const Points<R>& in, const Map<R>& out, Tap* taps, const R* packed, const R* bias, int n_in, int n_out, int n_bands,
              int skip, int n_rows, int spare, int columns, int kw, int batch, int inside, int n_inside) {
    constexpr int L = Simd<R>::n;
    alignas(64) R points[n_points * conv_registers * L * tiles_of_point];
    const int length = columns * batch, n_vec = (length + L - 1) / L;
    const auto [most, tv] = tile_shape<R>(n_out, n_vec);
    TapList list[tiles_of_point];
    for (int j = 0; j < tiles_of_point; ++j) list[j] = {taps + j * n_in * kw, n_in, 1, kw, batch, in.first.channel, 0};
    for (int o = 0; o < n_out; o += most) {
        const int n = std::min(most, n_out - o), step = n_in * n * tap_block;
        for (int first = 0; first < n_vec; first += tiles_of_point * tv) {
            const int here = std::min(tiles_of_point * tv, n_vec - first), n_tiles = (here + tv - 1) / tv;
            Tile<R> tile[tiles_of_point]{};
            for (int j = 0; j < n_tiles; ++j) {
                const int lane = (first + j * tv) * L, end = std::min(lane + tv * L, (first + here) * L);
                const int from = std::max(0, inside - (end - 1) / batch);
                list[j].choose({0, 1, from, std::max(from, std::min(kw, inside + n_inside - lane / batch)), n}, tile[j]);
                tile[j].channel = here * L, tile[j].last = L;
            }
            for (int band = 0; band < n_bands; ++band) {
                for (int k = 0; k < n_points; ++k)
                    for (int j = 0; j < n_tiles; ++j) {
                        tile[j].line = in.at(k).at(0, band) + (first + j * tv) * L, tile[j].weight = packed + k * step;
                        tile[j].out = points + (k * n * here + j * tv) * L;
                        tap_tile_of<R>(n, std::min(tv, here - j * tv))(tile[j]);
                    }
                std::ptrdiff_t rows[n_points];
                for (int r = 0; r < n_points; ++r) {
                    const int y = band * M + r - skip;
                    rows[r] = (y < 0 || y >= n_rows ? spare : y) * out.row;
                }
                points_to_rows<R, M, BACK>(points, n, here, bias ? bias + o : nullptr, out.at(o, 0) + first * L, out.channel, rows,
                                           band > 0, std::min(L, length - (first + here - 1) * L));
            }
        }
        packed += n_points * step;
    }
}

// grad[point][o][i][kx] = sum over bands and . of d[point][o][band][.] in[point][i][band][. + kx batch]. `sums` has room for the
// vectors of gradient_channels(kw) rows of n_in kw.
template <class R>
void winograd_gradient(const Points<R>& in, const Points<R>& d, int n_in, int n_out, int n_bands, int columns, int kw, int batch,
                       Vec<R>* sums, R* grad) {
    constexpr int L = Simd<R>::n;
    const int n_vec = (columns * batch + L - 1) / L, size = n_in * kw;
    for (int k = 0; k < n_points; ++k) {
        const Map<R> x = in.at(k), g = d.at(k);
        each_group(n_out, gradient_channels(kw), [&](int o, int n) {
            for (int i = 0; i < n_in; ++i)
                add_gradients<R>(n, kw, {x.at(i, 0), x.row, g.at(o, 0), g.channel, g.row, n_bands, n_vec, batch, false}, sums + i * kw, size);
            lanes_sums<R>(sums, n * size, grad + std::ptrdiff_t(k * n_out + o) * size);
        });
    }
}

}  // namespace fedloom

// Convolution with the batch innermost. A row of an image is width x batch numbers in a line, so a tap of the kernel is a
// shift by whole batches, every batch size fills vectors, and nothing is unrolled into a matrix.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "simd.h"

namespace fedloom {

// A stack of images [channel][row][column x batch] with a border of zeros around each image. `origin` is the first
// number inside the border of channel 0; rows and channels are `row` and `channel` numbers apart.
template <class R>
struct Map {
    R* origin;
    std::ptrdiff_t row, channel;
    R* at(int c, int y) const { return origin + c * channel + y * row; }
};

// out[o][y][.] = bias[o] + sum over i, ky, kx of weight(i, ky, kx, o) in[i][y + ky][. + kx batch], for TO channels o and
// TV vectors of a row at a time. `packed` holds [i][ky][kx][TO]; ky runs over from..to-1, the others meet the border. The
// last vector of a row may be cut to `last` numbers.
template <class R, int TO, int TV, int KW>
inline void conv_tile(const Map<R>& in, const Map<R>& out, const R* packed, const R* bias, int n_in, int kh, int kw_any,
                      int batch, int o, int y, int v0, int last, int from, int to) {
    const int kw = KW ? KW : kw_any;
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TO][TV];
    for (int t = 0; t < TO; ++t)
        for (int v = 0; v < TV; ++v) acc[t][v] = splat<R>(bias ? bias[o + t] : R(0));
    for (int i = 0; i < n_in; ++i) {
        const R* w = packed + std::ptrdiff_t(i * kh + from) * kw * TO;
        for (int ky = from; ky < to; ++ky) {
            const R* line = in.at(i, y + ky) + v0 * L;
            for (int kx = 0; kx < kw; ++kx, line += batch, w += TO) {
                Vec<R> x[TV];
                for (int v = 0; v < TV; ++v) x[v] = load(line + v * L);
                for (int t = 0; t < TO; ++t)
                    for (int v = 0; v < TV; ++v) acc[t][v] += w[t] * x[v];
            }
        }
    }
    for (int t = 0; t < TO; ++t) {
        R* line = out.at(o + t, y) + v0 * L;
        for (int v = 0; v + 1 < TV; ++v) store(line + v * L, acc[t][v]);
        store_some(line + (TV - 1) * L, acc[t][TV - 1], last);
    }
}

#if FEDLOOM_VECTOR_BYTES == 64
constexpr int conv_registers = 28;
#else
constexpr int conv_registers = 12;
#endif

// Tiles that fit into the registers: conv_shape chooses no others.
template <class R, int KW>
struct ConvTiles {
    using Tile = void (*)(const Map<R>&, const Map<R>&, const R*, const R*, int, int, int, int, int, int, int, int, int, int);
    static constexpr int most_o = 8, most_v = 6;
    Tile tile[most_o + 1][most_v + 1];
    ConvTiles() { fill(std::make_integer_sequence<int, most_o * most_v>{}); }
    template <int... I>
    void fill(std::integer_sequence<int, I...>) {
        ((tile[I / most_v + 1][I % most_v + 1] = one<I / most_v + 1, I % most_v + 1>()), ...);
    }
    template <int TO, int TV>
    static constexpr Tile one() {
        if constexpr (TO * TV <= conv_registers)
            return &conv_tile<R, TO, TV, KW>;
        else
            return nullptr;
    }
};

// How many channels and vectors to take at a time: least time by counting multiply-adds and loads.
inline std::pair<int, int> conv_shape(int n_out, int n_vec) {
    std::pair<int, int> best{1, 1};
    double least = 1e300;
    for (int to = 1; to <= 8 && to <= n_out; ++to) {
        for (int tv = 1; tv <= 6 && tv <= n_vec; ++tv) {
            if (to * tv + (conv_registers == 28 ? tv : 1) > conv_registers + 2 || to * tv > conv_registers) continue;
            auto cost = [](int o, int v) { return o * v < 1 ? 0.0 : std::fmax(o * v, 0.5 * (o * v + v)) + 0.6 * v + 2.0; };
            int full_o = n_out / to, rest_o = n_out % to, full_v = n_vec / tv, rest_v = n_vec % tv;
            double time = full_o * (full_v * cost(to, tv) + cost(to, rest_v)) + full_v * cost(rest_o, tv) + cost(rest_o, rest_v);
            if (time < least) least = time, best = {to, tv};
        }
    }
    return best;
}

// All rows of all output channels. weight(o, i, ky, kx) gives the weights; `scratch` has room for one tile of them. Rows of
// `in` before `inside` and from `inside + n_inside` on are border.
template <class R, class Weight>
void convolve(const Map<R>& in, const Map<R>& out, const R* bias, int n_in, int n_out, int rows, int columns, int kh,
              int kw, int batch, int inside, int n_inside, R* scratch, Weight weight) {
    static const ConvTiles<R, 5> tiles5;
    static const ConvTiles<R, 3> tiles3;
    static const ConvTiles<R, 0> tiles;
    constexpr int L = Simd<R>::n;
    const int length = columns * batch, n_vec = (length + L - 1) / L;
    const int tail = length - (n_vec - 1) * L;
    const auto [to, tv] = conv_shape(n_out, n_vec);
    for (int o = 0; o < n_out; o += to) {
        const int no = n_out - o < to ? n_out - o : to;
        R* w = scratch;
        for (int i = 0; i < n_in; ++i)
            for (int ky = 0; ky < kh; ++ky)
                for (int kx = 0; kx < kw; ++kx)
                    for (int t = 0; t < no; ++t) *w++ = weight(o + t, i, ky, kx);
        for (int y = 0; y < rows; ++y) {
            const int from = inside - y > 0 ? std::min(inside - y, kh) : 0;
            const int until = std::max(from, std::min(kh, inside + n_inside - y));
            for (int v = 0; v < n_vec; v += tv) {
                const int nv = n_vec - v < tv ? n_vec - v : tv;
                const int last = v + nv == n_vec ? tail : L;
                auto tile = kw == 5 ? tiles5.tile[no][nv] : kw == 3 ? tiles3.tile[no][nv] : tiles.tile[no][nv];
                tile(in, out, scratch, bias, n_in, kh, kw, batch, o, y, v, last, from, until);
            }
        }
    }
}

// grad[o][i][ky][kx] += sum over y and . of d[o][y][.] in[i][y + ky][. + kx batch]; d is zero behind the end of each row.
template <class R, int TO, int KW>
inline void conv_gradient_tile(const Map<R>& in, const Map<R>& d, int o, int i, int ky, int rows, int n_vec, int batch,
                               R* grad, std::ptrdiff_t per_out) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TO][KW];
    for (int t = 0; t < TO; ++t)
        for (int k = 0; k < KW; ++k) acc[t][k] = Vec<R>{};
    for (int y = 0; y < rows; ++y) {
        const R* x = in.at(i, y + ky);
        const R* g[TO];
        for (int t = 0; t < TO; ++t) g[t] = d.at(o + t, y);
        for (int v = 0; v < n_vec; ++v) {
            Vec<R> xs[KW];
            for (int k = 0; k < KW; ++k) xs[k] = load(x + v * L + k * batch);
            for (int t = 0; t < TO; ++t) {
                Vec<R> gs = load(g[t] + v * L);
                for (int k = 0; k < KW; ++k) acc[t][k] += gs * xs[k];
            }
        }
    }
    R sums[TO * KW];
    lanes_sums<R, TO * KW>(&acc[0][0], sums);
    for (int t = 0; t < TO; ++t)
        for (int k = 0; k < KW; ++k) grad[t * per_out + k] += sums[t * KW + k];
}

// Output channels in groups of nearly equal size, as many at a time as there are registers for.
template <class R, int KW>
void conv_gradient_row(const Map<R>& in, const Map<R>& d, int n_out, int i, int ky, int rows, int n_vec, int batch, R* grad,
                       std::ptrdiff_t per_out) {
    constexpr int most = conv_registers / KW > 6 ? 6 : conv_registers / KW;
    const int n_groups = (n_out + most - 1) / most;
    for (int g = 0, o = 0; g < n_groups; ++g) {
        const int n = (n_out - o) / (n_groups - g);
        auto tile = [&](auto to) {
            conv_gradient_tile<R, decltype(to)::value, KW>(in, d, o, i, ky, rows, n_vec, batch, grad + o * per_out, per_out);
        };
        if constexpr (most >= 6) if (n == 6) tile(std::integral_constant<int, 6>{});
        if constexpr (most >= 5) if (n == 5) tile(std::integral_constant<int, 5>{});
        if constexpr (most >= 4) if (n == 4) tile(std::integral_constant<int, 4>{});
        if constexpr (most >= 3) if (n == 3) tile(std::integral_constant<int, 3>{});
        if (n == 2) tile(std::integral_constant<int, 2>{});
        if (n == 1) tile(std::integral_constant<int, 1>{});
        o += n;
    }
}

// `per_in` numbers of grad for each of the filters.
template <class R>
void convolve_gradient(const Map<R>& in, const Map<R>& d, int n_in, int n_out, int rows, int columns, int kh, int kw,
                       int batch, R* grad, std::ptrdiff_t per_in) {
    constexpr int L = Simd<R>::n;
    const int n_vec = (columns * batch + L - 1) / L;
    const std::ptrdiff_t per_out = n_in * per_in;
    for (int i = 0; i < n_in; ++i) {
        for (int ky = 0; ky < kh; ++ky) {
            R* g = grad + i * per_in + ky * kw;
            if (kw == 5) {
                conv_gradient_row<R, 5>(in, d, n_out, i, ky, rows, n_vec, batch, g, per_out);
            } else if (kw == 3) {
                conv_gradient_row<R, 3>(in, d, n_out, i, ky, rows, n_vec, batch, g, per_out);
            } else {
                for (int kx = 0; kx < kw; ++kx) {
                    Map<R> shifted{in.origin + kx * batch, in.row, in.channel};
                    conv_gradient_row<R, 1>(shifted, d, n_out, i, ky, rows, n_vec, batch, g + kx, per_out);
                }
            }
        }
    }
}

}  // namespace fedloom

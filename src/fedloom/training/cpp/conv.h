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

// A tap of a convolution: where its line and its weights stand, from the first ones.
struct Tap {
    std::int32_t line, weight;
};

// A tile of TO channels and TV vectors: out[t][v] = bias[t] + sum over taps of weight[t tap_block] line[v L], in the order of the
// taps, which are a list: one loop for all shapes. With `more` it goes on from what is there. `last` numbers of the last vector
// are stored.
template <class R>
struct Tile {
    const Tap *taps, *taps_end;
    const R *line, *weight, *bias;  // no bias: zeros
    R* out;
    std::ptrdiff_t channel;  // of out
    int last;
    bool more;
};

constexpr int tap_block = 8;  // columns of a kernel that stand side by side; the next channel's follow

// Of channels and vectors the fewer stay in registers, the others come one by one. Left alone, the compiler copies
// accumulators to and fro.
template <class R, int TO, int TV>
inline void add_tap(Vec<R> (&acc)[TO][TV], const R* weight, const R* line) {
    constexpr int L = Simd<R>::n;
    if constexpr (TV <= TO) {
        Vec<R> x[TV];
        for (int v = 0; v < TV; ++v) x[v] = in_register<R>(load(line + v * L));
        for (int t = 0; t < TO; ++t) {
            const Vec<R> w = splat<R>(weight[t * tap_block]);
            for (int v = 0; v < TV; ++v) acc[t][v] += w * x[v];
        }
    } else {
        Vec<R> w[TO];
        for (int t = 0; t < TO; ++t) w[t] = in_register<R>(splat<R>(weight[t * tap_block]));
        for (int v = 0; v < TV; ++v) {
            const Vec<R> x = in_register<R>(load(line + v * L));
            for (int t = 0; t < TO; ++t) acc[t][v] += w[t] * x;
        }
    }
    for (int t = 0; t < TO; ++t)
        for (int v = 0; v < TV; ++v) acc[t][v] = in_register<R>(acc[t][v]);
}

template <class R, int TO, int TV>
void tap_tile(const Tile<R>& a) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TO][TV];
    for (int t = 0; t < TO; ++t)
        for (int v = 0; v < TV; ++v)
            acc[t][v] = in_register<R>(a.more ? load(a.out + t * a.channel + v * L) : splat<R>(a.bias ? a.bias[t] : R(0)));
    const R *line = a.line, *weight = a.weight;
    for (const Tap *tap = a.taps, *end = a.taps_end; tap != end; ++tap) add_tap<R, TO, TV>(acc, weight + tap->weight, line + tap->line);
    for (int t = 0; t < TO; ++t) {
        R* out = a.out + t * a.channel;
        for (int v = 0; v + 1 < TV; ++v) store(out + v * L, acc[t][v]);
        store_some(out + (TV - 1) * L, acc[t][TV - 1], a.last);
    }
}

#if FEDLOOM_VECTOR_BYTES == 64
constexpr int conv_registers = 28;
#else
constexpr int conv_registers = 12;
#endif

// Tiles that fit into the registers: tile_shape chooses no others. In double precision, where only the tests are, a few do.
template <class R>
constexpr int most_tile_channels = sizeof(R) == 4 ? 8 : 3;
template <class R>
constexpr int most_tile_vectors = sizeof(R) == 4 ? 6 : 2;

template <class R>
struct TapTiles {
    static constexpr int channels = most_tile_channels<R>, vectors = most_tile_vectors<R>;
    using Function = void (*)(const Tile<R>&);
    Function tile[channels + 1][vectors + 1];
    TapTiles() { fill(std::make_integer_sequence<int, channels * vectors>{}); }
    template <int... I>
    void fill(std::integer_sequence<int, I...>) {
        ((tile[I / vectors + 1][I % vectors + 1] = one<I / vectors + 1, I % vectors + 1>()), ...);
    }
    template <int TO, int TV>
    static constexpr Function one() {
        if constexpr (TO * TV <= conv_registers)
            return &tap_tile<R, TO, TV>;
        else
            return nullptr;
    }
};

template <class R>
auto tap_tile_of(int channels, int vectors) {
    static const TapTiles<R> tiles;
    return tiles.tile[channels][vectors];
}

// Cycles of a tap, by counting: two multiply-adds or loads at a time, a load across two cache lines twice; a sum waits four
// cycles for itself.
inline double tap_cycles(int channels, int vectors) {
    const int n = channels * vectors;
    if (n < 1) return 0;
    if (conv_registers == 28) return std::fmax(n, 0.5 * (n + vectors)) + 0.6 * vectors + 2.0;
    return std::fmax(std::fmax(0.5 * n, 4.0), 0.5 * (channels + 2 * vectors)) + 0.35;
}

// How many channels and vectors to take at a time; of equals the one with fewer vectors, which meets the border less.
template <class R>
std::pair<int, int> tile_shape(int n_out, int n_vec) {
    std::pair<int, int> best{1, 1};
    double least = 1e300;
    for (int tv = 1; tv <= most_tile_vectors<R> && tv <= n_vec; ++tv)
        for (int to = 1; to <= most_tile_channels<R> && to <= n_out; ++to) {
            if (to * tv > conv_registers || (conv_registers == 28 && to * tv + tv > conv_registers + 2)) continue;
            const int full_o = n_out / to, rest_o = n_out % to, full_v = n_vec / tv, rest_v = n_vec % tv;
            const double time = full_o * (full_v * tap_cycles(to, tv) + tap_cycles(to, rest_v)) + full_v * tap_cycles(rest_o, tv) +
                                tap_cycles(rest_o, rest_v);
            if (time < least) least = time, best = {to, tv};
        }
    return best;
}

// Which taps meet the image, of n_in channels: rows and columns of the kernel from..to-1, for a tile of n channels.
struct TapRange {
    int row_from, row_to, column_from, column_to, n;
    bool operator==(const TapRange& b) const {
        return row_from == b.row_from && row_to == b.row_to && column_from == b.column_from && column_to == b.column_to && n == b.n;
    }
};

// The list of taps of a range, made anew only where the range changes. `taps` has room for all of a kernel. The weights of a tile
// of n channels are [i][row][block of columns][channel][column of the block].
class TapList {
  public:
    TapList() = default;
    TapList(Tap* taps, int n_in, int kh, int kw, int batch, std::ptrdiff_t channel, std::ptrdiff_t row)
        : taps_(taps), n_in_(n_in), kh_(kh), kw_(kw), batch_(batch), channel_(channel), row_(row) {}
    template <class R>
    void choose(const TapRange& r, Tile<R>& tile) {
        if (!(r == now_)) make(r);
        tile.taps = taps_, tile.taps_end = end_;
    }

  private:
    Tap *taps_ = nullptr, *end_ = nullptr;
    int n_in_ = 0, kh_ = 0, kw_ = 0, batch_ = 0;
    std::ptrdiff_t channel_ = 0, row_ = 0;
    TapRange now_{0, 0, 0, 0, -1};

    void make(const TapRange& r) {
        now_ = r;
        end_ = taps_;
        const int row_size = round_up(kw_, tap_block) * r.n;
        for (int i = 0; i < n_in_; ++i)
            for (int ky = r.row_from; ky < r.row_to; ++ky)
                for (int kx = r.column_from; kx < r.column_to; ++kx)
                    *end_++ = {std::int32_t(i * channel_ + ky * row_ + kx * batch_),
                               (i * kh_ + ky) * row_size + kx / tap_block * tap_block * r.n + kx % tap_block};
    }
};

// How many of n channels to take at a time, in parts of nearly equal size: tiles side by side share lines, of so many bytes a
// channel, that should stay in the first-level cache.
inline int channels_together(int n, int bytes) {
    const int most = std::max(1, (16 << 10) / bytes), parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
}

// out[o][y][.] = bias[o] + sum over i, ky, kx of weight(o, i, ky)[kx] in[i][y + ky][. + kx batch], all rows of all output
// channels; MIRRORED: weight(o, i, ky)[-kx]. `packed` has room for one tile of weights. Rows of `in` before `inside` and from
// `inside + n_inside` on are border.
template <class R, bool MIRRORED, class Weight>
void convolve(const Map<R>& in, const Map<R>& out, const R* bias, int n_in, int n_out, int rows, int columns, int kh,
              int kw, int batch, int inside, int n_inside, Tap* taps, R* packed, Weight weight) {
    constexpr int L = Simd<R>::n;
    const int length = columns * batch, n_vec = (length + L - 1) / L;
    const int tail = length - (n_vec - 1) * L;
    const auto [most, tv] = tile_shape<R>(n_out, n_vec);
    TapList list(taps, n_in, kh, kw, batch, in.channel, in.row);
    const int together = channels_together(n_in, kh * (int(sizeof(R)) * (tv * L + (kw - 1) * batch) + 64));
    for (int o = 0; o < n_out; o += most) {
        const int n = std::min(n_out - o, most);
        R* to = packed;
        for (int i = 0; i < n_in; ++i)
            for (int ky = 0; ky < kh; ++ky, to += round_up(kw, tap_block) * n)
                for (int t = 0; t < n; ++t) {
                    const R* w = weight(o + t, i, ky);
                    for (int begin = 0; begin < kw; begin += tap_block)
                        for (int kx = begin; kx < std::min(kw, begin + tap_block); ++kx)
                            to[begin * n + t * tap_block + kx - begin] = w[MIRRORED ? -kx : kx];
                }
        Tile<R> tile{};
        tile.weight = packed, tile.bias = bias ? bias + o : nullptr, tile.channel = out.channel;
        for (int y = 0; y < rows; ++y) {
            const int from = inside - y > 0 ? std::min(inside - y, kh) : 0;
            const int until = std::max(from, std::min(kh, inside + n_inside - y));
            list.choose({from, until, 0, kw, n}, tile);
            for (int i = 0; i < n_in; i += together) {
                tile.taps = taps + i * (until - from) * kw, tile.taps_end = taps + std::min(n_in, i + together) * (until - from) * kw;
                tile.more = i > 0;
                for (int v = 0; v < n_vec; v += tv) {
                    const int nv = std::min(n_vec - v, tv);
                    tile.line = in.at(0, y) + v * L, tile.out = out.at(o, y) + v * L;
                    tile.last = v + nv == n_vec ? tail : L;
                    tap_tile_of<R>(n, nv)(tile);
                }
            }
        }
    }
}

// sums[t][k] = gradient[t channel][row][.] line[row][. + k batch], summed over rows and vectors in this order; the
// lanes of a vector stay apart. With `more` it goes on from what is there.
template <class R>
struct Lines {
    const R* line;
    std::ptrdiff_t line_row;
    const R* gradient;
    std::ptrdiff_t channel, gradient_row;
    int rows, n_vec, batch;
    bool more;
};

template <class R, int TO, int KW>
__attribute__((noinline)) void gradient_tile(const Lines<R>& a, Vec<R>* sums, int sums_step) {
    constexpr int L = Simd<R>::n;
    Vec<R> acc[TO][KW];
    for (int t = 0; t < TO; ++t)
        for (int k = 0; k < KW; ++k) acc[t][k] = in_register<R>(a.more ? sums[t * sums_step + k] : Vec<R>{});
    for (int y = 0; y < a.rows; ++y) {
        const R* x = a.line + y * a.line_row;
        const R* g = a.gradient + y * a.gradient_row;
        for (int v = 0; v < a.n_vec; ++v, x += L, g += L) {
            Vec<R> xs[KW];
            for (int k = 0; k < KW; ++k) xs[k] = in_register<R>(load(x + k * a.batch));
            for (int t = 0; t < TO; ++t) {
                const Vec<R> gs = in_register<R>(load(g + t * a.channel));
                for (int k = 0; k < KW; ++k) acc[t][k] = in_register<R>(acc[t][k] + gs * xs[k]);
            }
        }
    }
    for (int t = 0; t < TO; ++t)
        for (int k = 0; k < KW; ++k) sums[t * sums_step + k] = acc[t][k];
}

constexpr int most_gradient_channels = 6;

// Channels of a tile for kernels of kw columns; those with another width than 5 or 3 go column by column.
inline int gradient_channels(int kw) { return std::min(most_gradient_channels, conv_registers / (kw == 5 || kw == 3 ? kw : 1)); }

template <class R, int KW>
void gradient_tile_of(int n, const Lines<R>& a, Vec<R>* sums, int sums_step) {
    constexpr int most = std::min(most_gradient_channels, conv_registers / KW);
    if constexpr (most >= 6) if (n == 6) gradient_tile<R, 6, KW>(a, sums, sums_step);
    if constexpr (most >= 5) if (n == 5) gradient_tile<R, 5, KW>(a, sums, sums_step);
    if constexpr (most >= 4) if (n == 4) gradient_tile<R, 4, KW>(a, sums, sums_step);
    if constexpr (most >= 3) if (n == 3) gradient_tile<R, 3, KW>(a, sums, sums_step);
    if (n == 2) gradient_tile<R, 2, KW>(a, sums, sums_step);
    if (n == 1) gradient_tile<R, 1, KW>(a, sums, sums_step);
}

template <class R>
void add_gradients(int n, int kw, const Lines<R>& a, Vec<R>* sums, int sums_step) {
    if (kw == 5) return gradient_tile_of<R, 5>(n, a, sums, sums_step);
    if (kw == 3) return gradient_tile_of<R, 3>(n, a, sums, sums_step);
    Lines<R> column = a;
    for (int kx = 0; kx < kw; ++kx, column.line += a.batch) gradient_tile_of<R, 1>(n, column, sums + kx, sums_step);
}

// Calls f(first channel, number of channels) for groups of nearly equal size of at most `most` channels.
template <class F>
void each_group(int n, int most, F f) {
    const int n_groups = (n + most - 1) / most;
    for (int g = 0, o = 0; g < n_groups; ++g) {
        const int size = (n - o) / (n_groups - g);
        f(o, size);
        o += size;
    }
}

// grad[o][i][ky][kx] = sum over y and . of d[o][y][.] in[i][y + ky][. + kx batch]; d is zero behind the end of each row.
// `sums` has room for the vectors of gradient_channels(kw) filters. Rows go in blocks that stay in the first-level cache.
template <class R>
void convolve_gradient(const Map<R>& in, const Map<R>& d, int n_in, int n_out, int rows, int columns, int kh, int kw,
                       int batch, Vec<R>* sums, R* grad) {
    constexpr int L = Simd<R>::n, block = 4;
    const int n_vec = (columns * batch + L - 1) / L, size = kh * kw;
    for (int i = 0; i < n_in; ++i)
        each_group(n_out, gradient_channels(kw), [&](int o, int n) {
            for (int y = 0; y < rows; y += block)
                for (int ky = 0; ky < kh; ++ky)
                    add_gradients<R>(n, kw, {in.at(i, y + ky), in.row, d.at(o, y), d.channel, d.row, std::min(block, rows - y), n_vec, batch, y > 0},
                                     sums + ky * kw, size);
            for (int t = 0; t < n; ++t) lanes_sums<R>(sums + t * size, size, grad + std::ptrdiff_t((o + t) * n_in + i) * size);
        });
}

}  // namespace fedloom

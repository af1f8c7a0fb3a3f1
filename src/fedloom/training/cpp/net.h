// A network of layers in sequence, trained on one thread with everything of one client in the cache.
//
// Every activation has one buffer: forward it holds the values, backward the gradient takes their place. Images are
// [channel][row][column x batch] with zero borders as wide as the convolutions next to them need; behind every row there
// is at least one vector of zeros, and stores are exact, so borders stay zero. Dense activations are [sample][feature].
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "dense.h"
#include "winograd.h"

namespace fedloom {

enum Kind { CONV, LINEAR, RELU, MAX_POOL, AVG_POOL, BATCH_NORM, GROUP_NORM, DROPOUT, FLATTEN };

struct LayerSpec {
    int kind;
    int c, h, w;     // of the input; dense: c features, h = w = 0
    int oc, oh, ow;  // of the output
    int kh, kw, ph, pw, groups;
    double eps, momentum, p;
    long weight, bias, mean, var;  // where its values stand in a model's row, -1: nowhere
    bool relu;                     // of a max-pooling: together with ReLU
};

// Bands of n_points + 1 - kh output rows, see winograd.h.
inline int n_bands(const LayerSpec& s) { return (s.oh + n_points - s.kh) / (n_points + 1 - s.kh); }

// Whether a convolution is done at points: 8 products a band must save three tenths of kh for every row, and so many
// channels must share the transformations (measured).
inline bool winograd_pays(const LayerSpec& s) {
    if (s.kind != CONV || (s.kh != 3 && s.kh != 5) || s.kw > most_columns || s.oc < 3) return false;
    return 10 * n_points * n_bands(s) <= 7 * s.kh * s.oh;
}

struct Rule {
    double weight_decay, proximal, momentum, clip_norm;  // clip_norm 0: no clipping
    double beta1 = 0, beta2 = 0, eps = 0;                // of Adam; eps 0: SGD
    bool decoupled = false;                              // Adam's decay works on the values (AdamW), not on the gradient
    bool adam() const { return eps > 0; }
};

inline std::uint64_t mix64(std::uint64_t x) {  // splitmix64's finaliser: the source of batches and dropout
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

inline std::uint32_t mix32(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ (x >> 16);
}

template <class R>
struct Memory {  // on cache-line boundaries, zeroed by reset
    R* data = nullptr;
    std::size_t size = 0;
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { std::free(data); }
    void make_room(std::size_t n) {
        if (n <= size) return;
        std::free(data);
        size = n;
        data = static_cast<R*>(std::aligned_alloc(64, (n * sizeof(R) + 4095) / 4096 * 4096));
        if (!data) {
            size = 0;
            throw std::bad_alloc();
        }
    }
    void reset(std::size_t n) {
        make_room(n);
        if (n) std::memset(static_cast<void*>(data), 0, n * sizeof(R));
    }
};

struct Segment {  // a parameter's place in the row and in the worker's own layout
    long row;
    std::ptrdiff_t at;
    int n, inputs, outputs, stride;  // dense weights: transposed to [inputs][stride]; else inputs = 0 and n values in a line
};

// What is the same for all workers: layers, parameters' places.
struct Net {
    std::vector<LayerSpec> layers;
    std::vector<Segment> segments;
    std::vector<std::ptrdiff_t> weight_at, bias_at;  // per layer, in the worker's layout, -1: none
    std::ptrdiff_t n_own = 0;
    long n_row = 0, n_features = 0;
    long n_known = 0;  // values of the row that layers have: the others stay as they are
    int n_outputs = 0, first_trained = 0;
    bool wide = false;  // the first layer is dense and wide, see dense.h
    std::size_t pack = 0, taps = 0;  // room for one tile of packed weights, and for the taps of a convolution

    Net(std::vector<LayerSpec> specs, long n_row_, int lanes) : n_row(n_row_) {
        for (auto& s : specs) {  // ReLU and max-pooling, in either order, become one
            LayerSpec* last = layers.empty() ? nullptr : &layers.back();
            if (last && last->kind == RELU && last->h && s.kind == MAX_POOL) {
                *last = s;
                last->relu = true;
            } else if (last && last->kind == MAX_POOL && !last->relu && s.kind == RELU) {
                last->relu = true;
            } else {
                layers.push_back(s);
            }
        }
        first_trained = static_cast<int>(layers.size());
        for (std::size_t l = 0; l < layers.size(); ++l) {
            const LayerSpec& s = layers[l];
            weight_at.push_back(-1);
            bias_at.push_back(-1);
            if (s.mean >= 0) n_known += 2 * s.c;
            if (s.weight >= 0 || s.bias >= 0) first_trained = std::min(first_trained, static_cast<int>(l));
            if (s.kind == LINEAR) {
                // worth it where filling up the outputs to whole vectors costs more than an eighth
                if (l == 0) wide = s.c % lanes == 0 && s.c >= 8 * lanes && 8 * s.oc <= 7 * round_up(s.oc, lanes);
                const bool as_it_is = l == 0 && wide;
                weight_at[l] = add(s.weight, s.c * s.oc, as_it_is ? 0 : s.c, s.oc, round_up(s.oc, lanes), lanes);
                if (s.bias >= 0) bias_at[l] = add(s.bias, s.oc, 0, 0, 0, lanes);
            } else {
                int n = s.kind == CONV ? s.oc * s.c * s.kh * s.kw : s.c;
                if (s.weight >= 0) weight_at[l] = add(s.weight, n, 0, 0, 0, lanes);
                if (s.bias >= 0) bias_at[l] = add(s.bias, s.kind == CONV ? s.oc : s.c, 0, 0, 0, lanes);
                if (s.kind == CONV) taps = std::max(taps, std::size_t(std::max(s.c, s.oc)) * std::max(s.kh, tiles_of_point) * s.kw);
                if (s.kind == CONV) pack = std::max(pack, std::size_t(std::max(s.c, s.oc)) * s.kh * round_up(s.kw, tap_block) * most_tile_channels<float>);
            }
        }
        const LayerSpec& in = layers.front();
        n_features = in.h ? long(in.c) * in.h * in.w : in.c;
        n_outputs = layers.back().oc;
    }

    std::ptrdiff_t add(long row, int n, int inputs, int outputs, int stride, int lanes) {
        std::ptrdiff_t at = n_own;
        segments.push_back({row, at, n, inputs, outputs, stride});
        n_known += n;
        n_own += round_up(inputs ? inputs * stride : n, lanes);
        return at;
    }
};

struct Target {  // what a batch should give: labels, or values [sample][n_outputs]
    const std::int64_t* label;
    const float* value;
};

enum Mode { EVALUATE, TRAIN };
enum Emit { GRADIENT, PLAIN, FULL };

template <class R>
class Worker {
    using S = Simd<R>;
    static constexpr int L = S::n;

  public:
    explicit Worker(const Net& net) : net_(net), lane_(net.layers.size() + 1) {
        stat_.resize(net.layers.size());
    }

    // Parameters and buffers of a model's row into the worker's layout, and back.
    void read_row(const R* row) {
        // the padding too: it may hold NaN of a client that diverged; filters are read by whole vectors
        own_.reset(net_.n_own + L);
        for (const Segment& s : net_.segments) {
            R* to = own_.data + s.at;
            const R* from = row + s.row;
            if (!s.inputs)
                std::copy_n(from, s.n, to);
            else
                transpose(from, s.inputs, s.inputs, s.outputs, s.inputs, to, s.stride);
        }
        for (std::size_t l = 0; l < net_.layers.size(); ++l) {
            const LayerSpec& s = net_.layers[l];
            if (s.mean < 0) continue;
            stat_[l].running_mean.assign(row + s.mean, row + s.mean + s.c);
            stat_[l].running_var.assign(row + s.var, row + s.var + s.c);
        }
    }

    void write_row(R* row, const R* own) const {
        for (const Segment& s : net_.segments) {
            const R* from = own + s.at;
            R* to = row + s.row;
            if (!s.inputs)
                std::copy_n(from, s.n, to);
            else
                transpose(from, s.stride, s.stride, s.inputs, s.outputs, to, s.inputs);
        }
    }

    void write_model(R* row) const {
        write_row(row, own_.data);
        for (std::size_t l = 0; l < net_.layers.size(); ++l) {
            const LayerSpec& s = net_.layers[l];
            if (s.mean < 0) continue;
            for (int c = 0; c < s.c; ++c) {
                row[s.mean + c] = R(stat_[l].running_mean[c]);
                row[s.var + c] = R(stat_[l].running_var[c]);
            }
        }
    }

    void begin(const Rule& rule) {
        rule_ = rule;
        emit_ = rule.clip_norm > 0 || rule.adam() ? GRADIENT : rule.weight_decay || rule.proximal || rule.momentum ? FULL : PLAIN;
        if (rule.proximal) {
            start_.reset(net_.n_own);
            std::copy_n(own_.data, net_.n_own, start_.data);
        }
        if (rule.momentum || rule.adam()) velocity_.reset(net_.n_own);
        if (rule.adam()) square_.reset(net_.n_own);
        first_ = true;
        n_steps_ = 0;
    }

    // After the next step the samples x[index[0..n-1]] are needed.
    void expect(const float* x, const std::int64_t* index, int n) {
        next_.clear();
        if constexpr (std::is_same_v<R, float>)
            for (int b = 0; b < n && net_.wide; ++b) next_.push_back(x + index[b] * net_.n_features);
    }

    // One step of the rule on the samples x[index[0..batch-1]]; dropout_key names the step.
    void step(const float* x, const std::int64_t* index, int batch, Target target, bool classify, double lr,
              std::uint64_t dropout_key) {
        lr_ = R(lr);
        mode_ = TRAIN;
        dropout_key_ = dropout_key;
        lay_out(batch);
        if (emit_ == GRADIENT) gradient_.reset(net_.n_own);
        gather(x, index);
        forward();
        loss_gradient(index, target, classify, R(1) / batch);
        backward();
        if (emit_ == GRADIENT) {
            if (rule_.clip_norm > 0) clip();
            if (rule_.adam())
                adam(lr);
            else {
                emit_ = FULL;
                apply(0, gradient_.data, net_.n_own);
                emit_ = GRADIENT;
            }
        }
        first_ = false;
    }

    // Gradient of the mean loss over the samples (evaluation mode), in the worker's layout.
    const R* gradient(const float* x, const std::int64_t* index, long n, int chunk, Target target, bool classify) {
        total_.reset(net_.n_own);
        mode_ = EVALUATE;
        emit_ = GRADIENT;
        for (long a = 0; a < n; a += chunk) {
            int batch = int(std::min<long>(chunk, n - a));
            lay_out(batch);
            gradient_.reset(net_.n_own);
            gather(x, index + a);
            forward();
            loss_gradient(index + a, target, classify, R(1) / R(n));
            backward();
            for (std::ptrdiff_t i = 0; i < net_.n_own; ++i) total_.data[i] += gradient_.data[i];
        }
        return total_.data;
    }

    // Outputs of samples x[index], [batch][n_outputs] with stride; evaluation mode.
    const R* outputs(const float* x, const std::int64_t* index, int batch, int* stride) {
        mode_ = EVALUATE;
        lay_out(batch);
        gather(x, index);
        forward();
        *stride = lane_.back().stride;
        return lane_.back().data;
    }

  private:
    struct Lane {  // the buffer of one activation
        R* data = nullptr;
        int c = 0, h = 0, w = 0;       // dense: h = 0
        int bh = 0, bw = 0;            // border in rows and columns
        std::ptrdiff_t row = 0, channel = 0;
        int stride = 0;                // dense
        std::size_t size = 0;
        int spare() const { return h + bh; }  // a row behind the border that nobody reads, next to a convolution at points
        R* at(int ch, int y) const { return data + ch * channel + (y + bh) * row + lead; }
        std::ptrdiff_t lead = 0;       // border columns x batch
        Map<R> map(int up, int left, int batch) const {  // origin moved by rows and columns
            return {data + (bh - up) * row + (bw - left) * std::ptrdiff_t(batch), row, channel};
        }
    };
    struct Statistics {
        std::vector<double> mean, inverse, running_mean, running_var;
    };

    const Net& net_;
    std::vector<Lane> lane_;
    std::vector<Statistics> stat_;
    std::vector<const R*> samples_, next_;  // of the batch, where they lie, and of the one after it: for a wide first layer
    Memory<R> own_, start_, velocity_, square_, gradient_, total_, arena_, temp_, pack_, grads_;
    Memory<R> input_points_, output_points_, filter_points_;  // see winograd.h
    Memory<Tap> taps_;
    Memory<Vec<R>> sums_;                                     // of gradients of filters, lanes apart
    Memory<R> chosen_, lines_;                                // by max-poolings; one line of each image that is being gathered
    std::vector<std::size_t> chosen_at_;  // where the choices of a max-pooling stand
    Rule rule_{};
    Emit emit_ = PLAIN;
    Mode mode_ = TRAIN;
    R lr_ = 0;
    bool first_ = true;
    long n_steps_ = 0;  // of Adam
    int batch_ = 0;
    std::uint64_t dropout_key_ = 0;

    bool needs_input_gradient(int l) const { return l > net_.first_trained; }

    void lay_out(int batch) {
        if (batch == batch_) return;
        batch_ = batch;
        samples_.resize(batch);
        lines_.reset(std::size_t(batch) * round_up(net_.layers.front().w, L));
        std::size_t total = 0, dense = 0, chosen = 0;
        const int n = int(net_.layers.size());
        for (int l = 0; l <= n; ++l) {
            Lane& a = lane_[l];
            const LayerSpec& s = net_.layers[l < n ? l : n - 1];
            a.c = l < n ? s.c : s.oc, a.h = l < n ? s.h : s.oh, a.w = l < n ? s.w : s.ow;
            a.bh = a.bw = 0;
            if (a.h) {
                if (l < n && s.kind == CONV) a.bh = s.ph, a.bw = s.pw;
                if (l > 0 && net_.layers[l - 1].kind == CONV && needs_input_gradient(l - 1)) {
                    const LayerSpec& before = net_.layers[l - 1];
                    if (!winograd_pays(before)) a.bh = std::max(a.bh, before.kh - 1 - before.ph);
                    a.bw = std::max(a.bw, before.kw - 1 - before.pw);
                }
                a.row = round_up((a.w + 2 * a.bw) * batch + L, L);
                if (a.row % 64 == 0) a.row += L;  // rows that are used together must not fall on the same place of a cache
                const bool spare = (l < n && winograd_pays(s)) || (l > 0 && winograd_pays(net_.layers[l - 1]));
                a.channel = a.row * (a.h + 2 * a.bh + spare);
                a.lead = std::ptrdiff_t(a.bw) * batch;
                int reach = 0;  // a convolution may read a little behind the last row
                if (l < n && s.kind == CONV) reach = s.kw * batch;
                if (l > 0 && net_.layers[l - 1].kind == CONV) reach = std::max(reach, net_.layers[l - 1].kw * batch);
                a.size = round_up(int(a.c * a.channel) + reach + 2 * L, 64);
            } else {
                a.stride = round_up(a.c, L);
                a.size = round_up(a.stride * batch, 64);
                dense = std::max(dense, a.size);
            }
            total += a.size;
        }
        chosen_at_.clear();
        for (const LayerSpec& s : net_.layers) {
            chosen_at_.push_back(chosen);
            if (s.kind == MAX_POOL) chosen += std::size_t(s.oc) * s.oh * s.ow * batch;
        }
        chosen_.reset(chosen + L);
        arena_.reset(total);
        R* next = arena_.data;
        for (Lane& a : lane_) a.data = next, next += a.size;
        temp_.reset(dense);
        pack_.reset(net_.pack);
        taps_.reset(net_.taps);
    }

    void gather(const float* x, const std::int64_t* index) {
        Lane& a = lane_[0];
        const long n = net_.n_features;
        if (!a.h) {
            for (int b = 0; b < batch_; ++b) {
                const float* from = x + index[b] * n;
                R* to = a.data + std::ptrdiff_t(b) * a.stride;
                samples_[b] = to;
                if constexpr (std::is_same_v<R, float>)
                    if (net_.wide) {
                        samples_[b] = from;
                        continue;
                    }
                std::copy_n(from, n, to);
            }
            return;
        }
        const int stride = round_up(a.w, L);
        for (int c = 0; c < a.c; ++c)
            for (int y = 0; y < a.h; ++y) {
                R* to = a.at(c, y);
                const float* from = x + (long(c) * a.h + y) * a.w;
                // first side by side, then across: images are apart by powers of two, which fall on the same cache lines
                for (int b = 0; b < batch_; ++b) copy_line(from + index[b] * n, a.w, lines_.data + b * stride);
                transpose<R>(lines_.data, stride, stride, batch_, a.w, to, batch_);
            }
    }

    void forward() {
        for (int l = 0; l < int(net_.layers.size()); ++l) {
            const LayerSpec& s = net_.layers[l];
            const Lane &x = lane_[l], &y = lane_[l + 1];
            switch (s.kind) {
                case CONV: conv_forward(l, s, x, y); break;
                case LINEAR: linear_forward(l, s, x, y); break;
                case RELU: each_line(l, [](const R* a, R* b, int n) { for (int i = 0; i < n; ++i) b[i] = a[i] < 0 ? R(0) : a[i]; }); break;
                case MAX_POOL: max_pool(l, s, x, y); break;
                case AVG_POOL: avg_pool(s, x, y); break;
                case BATCH_NORM: batch_norm(l); break;
                case GROUP_NORM: group_norm(l); break;
                case DROPOUT: dropout(l, x, y); break;
                case FLATTEN:
                    each_feature(x, y, [&](const R* from, R* to) { for (int b = 0; b < batch_; ++b) to[std::ptrdiff_t(b) * y.stride] = from[b]; });
            }
        }
    }

    void backward() {
        for (int l = int(net_.layers.size()) - 1; l >= net_.first_trained; --l) {
            const LayerSpec& s = net_.layers[l];
            const Lane &x = lane_[l], &y = lane_[l + 1];
            const bool needs = needs_input_gradient(l);
            switch (s.kind) {
                case CONV: conv_backward(l, s, x, y, needs); break;
                case LINEAR: linear_backward(l, s, x, y, needs); break;
                case RELU: each_line(l, [](R* a, const R* d, int n) { for (int i = 0; i < n; ++i) a[i] = a[i] > 0 ? d[i] : R(0); }); break;
                case MAX_POOL: max_pool_back(l, s, x, y); break;
                case AVG_POOL: avg_pool_back(s, x, y); break;
                case BATCH_NORM: batch_norm_back(l); break;
                case GROUP_NORM: group_norm_back(l); break;
                case DROPOUT: dropout(l, y, x); break;
                case FLATTEN:
                    each_feature(x, y, [&](R* to, const R* from) { for (int b = 0; b < batch_; ++b) to[b] = from[std::ptrdiff_t(b) * y.stride]; });
            }
        }
    }

    // Calls f(its values in images x, its place in the first of the samples y) for every feature of a flattening.
    template <class F>
    void each_feature(const Lane& x, const Lane& y, F f) {
        for (int c = 0; c < x.c; ++c)
            for (int i = 0; i < x.h; ++i)
                for (int j = 0; j < x.w; ++j) f(x.at(c, i) + j * batch_, y.data + (c * x.h + i) * x.w + j);
    }

    // Calls f(line of the input buffer, line of the output buffer, length) for every contiguous line of layer l.
    template <class F>
    void each_line(int l, F f) {
        const Lane &x = lane_[l], &y = lane_[l + 1];
        if (!x.h) {
            for (int b = 0; b < batch_; ++b) f(x.data + std::ptrdiff_t(b) * x.stride, y.data + std::ptrdiff_t(b) * y.stride, x.c);
            return;
        }
        for (int c = 0; c < x.c; ++c)
            for (int i = 0; i < x.h; ++i) f(x.at(c, i), y.at(c, i), x.w * batch_);
    }

    void conv_forward(int l, const LayerSpec& s, const Lane& x, const Lane& y) {
        const R* w = own_.data + net_.weight_at[l];
        const R* bias = net_.bias_at[l] < 0 ? nullptr : own_.data + net_.bias_at[l];
        if (!winograd_pays(s) || !forward_at_points) {
            convolve<R, false>(x.map(s.ph, s.pw, batch_), y.map(0, 0, batch_), bias, s.c, s.oc, s.oh, s.ow, s.kh, s.kw, batch_, s.ph, s.h,
                               taps_.data, pack_.data, [&](int o, int i, int ky) { return w + ((o * s.c + i) * s.kh + ky) * s.kw; });
            return;
        }
        with_kernel(s, [&](auto kernel) {
            constexpr int K = decltype(kernel)::value, M = n_points + 1 - K;
            const int most = tile_shape<R>(s.oc, (s.ow * batch_ + L - 1) / L).first;
            filter_points_.make_room(std::size_t(s.oc) * s.c * at_points_size + L);
            pack_at_points<R, K, false>(s.c, s.oc, most, s.kw, filter_points_.data, [&](int o, int i) { return w + (o * s.c + i) * K * s.kw; });
            winograd<R, M, false>(input_at_points<M>(s, x), y.map(0, 0, batch_), taps_.data, filter_points_.data, bias, s.c, s.oc, n_bands(s), 0, s.oh,
                                  y.spare(), s.ow, s.kw, batch_, s.pw, s.w);
        });
    }

    void conv_backward(int l, const LayerSpec& s, const Lane& x, const Lane& y, bool needs) {
        const std::ptrdiff_t at = net_.weight_at[l];
        const int n = s.oc * s.c * s.kh * s.kw;
        grads_.reset(round_up(n, L) + L + round_up(s.oc, L));
        R *grad = grads_.data, *grad_bias = grad + round_up(n, L) + L;
        if (net_.bias_at[l] >= 0)
            for (int o = 0; o < s.oc; ++o) {
                Vec<R> sum{};
                for (int i = 0; i < s.oh; ++i)
                    for (int v = 0; v < s.ow * batch_; v += L) sum += load(y.at(o, i) + v);  // zeros behind the end
                grad_bias[o] = lanes_sum<R>(sum);
            }
        // one channel does not pay for taking the gradient to the points
        if (winograd_pays(s) && (needs || s.c > 1))
            with_kernel(s, [&](auto kernel) { conv_gradients_at_points<decltype(kernel)::value>(s, x, y, own_.data + at, grad, needs); });
        else
            conv_gradients(s, x, y, own_.data + at, grad, needs);
        apply(at, grad, round_up(n, L));
        if (net_.bias_at[l] >= 0) apply(net_.bias_at[l], grad_bias, round_up(s.oc, L));
    }

    // Gradients of the weights w, and of the input if it `needs` one, in place of the input.
    void conv_gradients(const LayerSpec& s, const Lane& x, const Lane& y, const R* w, R* grad, bool needs) {
        sums_.make_room(std::size_t(gradient_channels(s.kw)) * s.kh * s.kw);
        convolve_gradient<R>(x.map(s.ph, s.pw, batch_), y.map(0, 0, batch_), s.c, s.oc, s.oh, s.ow, s.kh, s.kw, batch_, sums_.data, grad);
        if (needs)
            convolve<R, true>(y.map(s.kh - 1 - s.ph, s.kw - 1 - s.pw, batch_), x.map(0, 0, batch_), nullptr, s.oc, s.c, s.h, s.w, s.kh,
                              s.kw, batch_, s.kh - 1 - s.ph, s.oh, taps_.data, pack_.data,
                              [&](int i, int o, int ky) { return w + ((o * s.c + i) * s.kh + (s.kh - 1 - ky)) * s.kw + s.kw - 1; });
    }

    template <int K>
    void conv_gradients_at_points(const LayerSpec& s, const Lane& x, const Lane& y, const R* w, R* grad, bool needs) {
        constexpr int M = n_points + 1 - K;
        const int bands = n_bands(s), n_filters = s.oc * s.c;
        const Points<R> out = at_points_in(output_points_, s.oc, bands, y.row);
        bands_to_points<R, M, false>({y.data + y.bh * y.row, y.row, y.channel}, s.oc, s.oh, bands, out);
        filter_points_.make_room(std::size_t(n_filters) * at_points_size + L);
        sums_.make_room(gradient_channels(s.kw) * s.c * s.kw);
        winograd_gradient<R>(input_at_points<M>(s, x), out.moved(y.lead), s.c, s.oc, bands, s.ow, s.kw, batch_, sums_.data,
                             filter_points_.data);
        for (int f = 0; f < n_filters; ++f)
            filter_from_points<R, K>(filter_points_.data + std::ptrdiff_t(f) * s.kw, std::ptrdiff_t(n_filters) * s.kw, s.kw,
                                     grad + std::ptrdiff_t(f) * K * s.kw);
        std::fill_n(grad + std::ptrdiff_t(n_filters) * K * s.kw, L, R(0));  // the last one wrote behind its end
        if (!needs) return;
        const int most = tile_shape<R>(s.c, (s.w * batch_ + L - 1) / L).first, border = s.kw - 1 - s.pw;
        pack_at_points<R, K, true>(s.oc, s.c, most, s.kw, filter_points_.data, [&](int i, int o) { return w + (o * s.c + i) * K * s.kw; });
        winograd<R, M, true>(out.moved(y.lead - border * batch_), x.map(0, 0, batch_), taps_.data, filter_points_.data, nullptr, s.oc, s.c, bands, s.ph,
                             s.h, x.spare(), s.w, s.kw, batch_, border, s.ow);
    }

    static Points<R> at_points_in(Memory<R>& memory, int n_channels, int bands, std::ptrdiff_t row) {
        memory.make_room(n_points * points_in<R>(nullptr, n_channels, bands, row).size + L);
        return points_in(memory.data, n_channels, bands, row);
    }

    template <class F>
    static void with_kernel(const LayerSpec& s, F f) {
        if (s.kh == 3)
            f(std::integral_constant<int, 3>{});
        else
            f(std::integral_constant<int, 5>{});
    }

    // The padded input at the points, from its first column on.
    template <int M>
    Points<R> input_at_points(const LayerSpec& s, const Lane& x) {
        const Points<R> lines = at_points_in(input_points_, s.c, n_bands(s), x.row);
        bands_to_points<R, M, true>({x.data + (x.bh - s.ph) * x.row, x.row, x.channel}, s.c, s.h + 2 * s.ph, n_bands(s), lines);
        return lines.moved((x.bw - s.pw) * batch_);
    }

    void linear_forward(int l, const LayerSpec& s, const Lane& x, const Lane& y) {
        const R* bias = net_.bias_at[l] < 0 ? nullptr : own_.data + net_.bias_at[l];
        const R* w = own_.data + net_.weight_at[l];
        if (l == 0 && net_.wide)
            wide_forward<R>(samples_.data(), w, bias, y.data, y.stride, s.c, s.oc, batch_);
        else
            dense_forward<R>(x.data, x.stride, w, y.stride, bias, y.data, y.stride, s.c, batch_);
    }

    void linear_backward(int l, const LayerSpec& s, const Lane& x, const Lane& y, bool needs) {
        const std::ptrdiff_t at = net_.weight_at[l];
        if (needs) dense_backward<R>(y.data, y.stride, own_.data + at, y.stride, temp_.data, x.stride, s.c, batch_);
        auto gradient = [&](auto emit) {
            if (l == 0 && net_.wide)
                wide_gradient<R>(samples_.data(), y.data, y.stride, s.c, s.oc, batch_, next_.data(), int(next_.size()), emit);
            else
                dense_gradient<R>(x.data, x.stride, y.data, y.stride, s.c, y.stride, batch_, emit);
        };
        if (emit_ == PLAIN)
            gradient([w = own_.data + at, lr = lr_](std::ptrdiff_t i, Vec<R> g) { store(w + i, load(w + i) - lr * g); });
        else
            gradient([&](std::ptrdiff_t i, Vec<R> g) { apply(at + i, g); });
        if (net_.bias_at[l] >= 0)
            for (int v = 0; v < y.stride; v += L) {
                Vec<R> sum{};
                for (int b = 0; b < batch_; ++b) sum += load(y.data + std::ptrdiff_t(b) * y.stride + v);
                apply(net_.bias_at[l] + v, sum);
            }
        if (needs)
            for (int b = 0; b < batch_; ++b)
                std::memcpy(x.data + std::ptrdiff_t(b) * x.stride, temp_.data + std::ptrdiff_t(b) * x.stride, s.c * sizeof(R));
    }

    // The rule: what a gradient does to the parameters at `at`.
    void apply(std::ptrdiff_t at, Vec<R> g) {
        R* w = own_.data + at;
        if (emit_ == GRADIENT) {
            store(gradient_.data + at, g);
            return;
        }
        if (emit_ == FULL) {
            const Vec<R> now = load(w);
            // with clipping the proximal term is in the gradient already
            if (rule_.proximal && !(rule_.clip_norm > 0)) g += R(rule_.proximal) * (now - load(start_.data + at));
            if (rule_.weight_decay) g += R(rule_.weight_decay) * now;
            if (rule_.momentum) {
                if (!first_) g += R(rule_.momentum) * load(velocity_.data + at);
                store(velocity_.data + at, g);
            }
        }
        store(w, load(w) - lr_ * g);
    }
    void apply(std::ptrdiff_t at, const R* g, std::ptrdiff_t n) {
        for (std::ptrdiff_t i = 0; i < n; i += L) apply(at + i, load(g + i));
    }

    // Scale the gradient (with the proximal term) to the norm, as torch.nn.utils.clip_grad_norm_ does.
    void clip() {
        double sum = 0;
        R* g = gradient_.data;
        for (std::ptrdiff_t i = 0; i < net_.n_own; ++i) {
            if (rule_.proximal) g[i] += R(rule_.proximal) * (own_.data[i] - start_.data[i]);
            sum += double(g[i]) * g[i];
        }
        const R scale = R(std::min(1.0, rule_.clip_norm / (std::sqrt(sum) + 1e-6)));
        for (std::ptrdiff_t i = 0; i < net_.n_own; ++i) g[i] *= scale;
    }

    // A step of Adam along the gradient, as torch.optim.Adam and AdamW. Padding has no gradient, and stays as it is.
    void adam(double lr) {
        ++n_steps_;
        const R own_share = R(1 - rule_.beta1), keep = R(rule_.beta2), square_share = R(1 - rule_.beta2), eps = R(rule_.eps);
        const R size = R(lr / (1 - std::pow(rule_.beta1, double(n_steps_))));
        const R root = R(std::sqrt(1 - std::pow(rule_.beta2, double(n_steps_))));
        const R left = R(1 - lr * rule_.weight_decay);
        for (std::ptrdiff_t i = 0; i < net_.n_own; i += L) {
            Vec<R> now = load(own_.data + i), g = load(gradient_.data + i);
            if (rule_.proximal && !(rule_.clip_norm > 0)) g += R(rule_.proximal) * (now - load(start_.data + i));
            if (rule_.weight_decay && rule_.decoupled) now *= left;
            if (rule_.weight_decay && !rule_.decoupled) g += R(rule_.weight_decay) * now;
            Vec<R> mean = load(velocity_.data + i), square = keep * load(square_.data + i) + square_share * (g * g);
            mean += own_share * (g - mean);
            store(velocity_.data + i, mean);
            store(square_.data + i, square);
            for (int v = 0; v < L; ++v) square[v] = std::sqrt(square[v]);
            store(own_.data + i, now - size * mean / (square / root + eps));
        }
    }

    // Mean loss: outputs become their gradient, times `scale` (1 / samples). Padding lanes stay zero.
    void loss_gradient(const std::int64_t* index, Target target, bool classify, R scale) {
        const Lane& y = lane_.back();
        const int n = y.c;
        for (int b = 0; b < batch_; ++b) {
            R* out = y.data + std::ptrdiff_t(b) * y.stride;
            if (!classify) {
                const float* wanted = target.value + index[b] * n;
                for (int i = 0; i < n; ++i) out[i] = R(2) * (out[i] - R(wanted[i])) * scale / R(n);
                continue;
            }
            R most = out[0];
            for (int i = 1; i < n; ++i) most = out[i] > most ? out[i] : most;
            for (int i = 0; i < n; ++i) out[i] -= most;
            exp_not_positive(out, n);
            R sum = 0;
            for (int i = 0; i < n; ++i) sum += out[i];
            const R factor = scale / sum;
            for (int i = 0; i < n; ++i) out[i] *= factor;
            out[target.label[index[b]]] -= scale;
        }
    }

    // Calls f(column, where in it, lanes to keep) for the vectors of n_columns columns of a line, in rising order: what is
    // written behind a column is overwritten by the next ones, and nothing must be written behind the line.
    template <class F>
    void each_column(int n_columns, F f) {
        for (int j = 0; j < n_columns; ++j)
            for (int v = 0; v < batch_; v += L) f(j, v, std::min(L, (n_columns - j) * batch_ - v));
    }

    // Of every window the largest value, and which of the four it is: the first of them row by row, as in torch; 4: ReLU
    // lets nothing through.
    void max_pool(int l, const LayerSpec& s, const Lane& x, const Lane& y) {
        const Vec<R> least = splat<R>(s.relu ? R(0) : -std::numeric_limits<R>::infinity());
        const Vec<R> zero{}, one = splat<R>(1), two = splat<R>(2), three = splat<R>(3), four = splat<R>(4);
        R* chosen = chosen_.data + chosen_at_[l];
        for (int c = 0; c < s.c; ++c)
            for (int i = 0; i < s.oh; ++i, chosen += s.ow * batch_) {
                const R *top = x.at(c, 2 * i), *low = x.at(c, 2 * i + 1);
                R* out = y.at(c, i);
                each_column(s.ow, [&](int j, int v, int last) {
                    const int at = 2 * j * batch_ + v;
                    const Vec<R> p = load(top + at), q = load(top + at + batch_), r = load(low + at), t = load(low + at + batch_);
                    const Vec<R> upper = p < q ? q : p, lower = r < t ? t : r, most = upper < lower ? lower : upper;
                    const Vec<R> which = upper < lower ? (r < t ? three : two) : (p < q ? one : zero);
                    const Vec<R> sum = p + q + r + t, value = most < least ? least : most;
                    store_some(out + j * batch_ + v, sum == sum ? value : sum, last);  // NaN must not get lost
                    store<R>(chosen + j * batch_ + v, most > least ? which : four);
                });
            }
    }

    void max_pool_back(int l, const LayerSpec& s, const Lane& x, const Lane& y) {
        const Vec<R> first[2] = {splat<R>(0), splat<R>(1)}, second[2] = {splat<R>(2), splat<R>(3)};  // of the upper and lower row
        const R* chosen = chosen_.data + chosen_at_[l];
        for (int c = 0; c < s.c; ++c) {
            for (int i = 0; i < s.oh; ++i, chosen += s.ow * batch_) {
                const R* d = y.at(c, i);
                R *top = x.at(c, 2 * i), *low = x.at(c, 2 * i + 1);
                each_column(2 * s.ow, [&](int j, int v, int last) {
                    const int from = (j >> 1) * batch_ + v, to = j * batch_ + v;
                    const Vec<R> which = load(chosen + from), g = load(d + from);
                    store_some<R>(top + to, which == first[j & 1] ? g : Vec<R>{}, last);
                    store_some<R>(low + to, which == second[j & 1] ? g : Vec<R>{}, last);
                });
            }
            clear_rest(s, x, c);
        }
    }

    void avg_pool(const LayerSpec& s, const Lane& x, const Lane& y) {
        const int n = batch_;
        for (int c = 0; c < s.c; ++c)
            for (int i = 0; i < s.oh; ++i)
                for (int j = 0; j < s.ow; ++j) {
                    const R *a = x.at(c, 2 * i) + 2 * j * n, *b = x.at(c, 2 * i + 1) + 2 * j * n;
                    R* out = y.at(c, i) + j * n;
                    for (int k = 0; k < n; ++k) out[k] = R(0.25) * (a[k] + a[k + n] + b[k] + b[k + n]);
                }
    }

    void avg_pool_back(const LayerSpec& s, const Lane& x, const Lane& y) {
        const int n = batch_;
        for (int c = 0; c < s.c; ++c) {
            for (int i = 0; i < s.oh; ++i)
                for (int j = 0; j < s.ow; ++j) {
                    R *a = x.at(c, 2 * i) + 2 * j * n, *b = x.at(c, 2 * i + 1) + 2 * j * n;
                    const R* d = y.at(c, i) + j * n;
                    for (int k = 0; k < n; ++k) a[k] = a[k + n] = b[k] = b[k + n] = R(0.25) * d[k];
                }
            clear_rest(s, x, c);
        }
    }

    // Rows and columns that a pooling of an odd size does not see have no gradient.
    void clear_rest(const LayerSpec& s, const Lane& x, int c) {
        for (int i = s.w % 2 ? 0 : 2 * s.oh; i < s.h; ++i) {
            const int from = i < 2 * s.oh ? 2 * s.ow : 0;
            std::fill(x.at(c, i) + from * batch_, x.at(c, i) + s.w * batch_, R(0));
        }
    }

    // Keep with probability 1 - p, by a hash of (step, layer, element in torch's order); the same mask backward.
    void dropout(int l, const Lane& from, const Lane& to) {
        const LayerSpec& s = net_.layers[l];
        const bool off = mode_ == EVALUATE || s.p <= 0;
        const R scale = off ? R(1) : R(1 / (1 - s.p));
        const std::uint64_t limit = off ? 0 : std::uint64_t(s.p * 4294967296.0);
        const std::uint32_t key = std::uint32_t(mix64(dropout_key_ ^ (std::uint64_t(s.groups) * 0x9E3779B97F4A7C15ull)));
        auto keep = [&](std::uint32_t element) { return mix32(element ^ key) >= limit ? scale : R(0); };
        if (!from.h) {
            for (int b = 0; b < batch_; ++b) {
                const R* a = from.data + std::ptrdiff_t(b) * from.stride;
                R* out = to.data + std::ptrdiff_t(b) * to.stride;
                for (int i = 0; i < s.c; ++i) out[i] = a[i] * keep(std::uint32_t(b) * s.c + i);
            }
            return;
        }
        for (int c = 0; c < s.c; ++c)
            for (int i = 0; i < s.h; ++i) {
                const R* a = from.at(c, i);
                R* out = to.at(c, i);
                for (int j = 0; j < s.w; ++j)
                    for (int b = 0; b < batch_; ++b)
                        out[j * batch_ + b] = a[j * batch_ + b] * keep(((std::uint32_t(b) * s.c + c) * s.h + i) * s.w + j);
            }
    }

    // Every value of channel c of layer l's input with its partner in the output buffer: f(x, y).
    template <class F>
    void each_of_channel(int l, int c, F f) {
        const Lane &x = lane_[l], &y = lane_[l + 1];
        if (!x.h) {
            for (int b = 0; b < batch_; ++b) f(x.data[std::ptrdiff_t(b) * x.stride + c], y.data[std::ptrdiff_t(b) * y.stride + c]);
            return;
        }
        for (int i = 0; i < x.h; ++i) {
            R *a = x.at(c, i), *d = y.at(c, i);
            for (int k = 0; k < x.w * batch_; ++k) f(a[k], d[k]);
        }
    }

    R scale_of(int l, int c) const { return net_.weight_at[l] < 0 ? R(1) : own_.data[net_.weight_at[l] + c]; }
    R shift_of(int l, int c) const { return net_.bias_at[l] < 0 ? R(0) : own_.data[net_.bias_at[l] + c]; }

    void batch_norm(int l) {
        const LayerSpec& s = net_.layers[l];
        Statistics& t = stat_[l];
        t.mean.resize(s.c);
        t.inverse.resize(s.c);
        const double n = double(batch_) * (s.h ? s.h * s.w : 1);
        for (int c = 0; c < s.c; ++c) {
            double mean, var;
            if (mode_ == TRAIN || s.mean < 0) {
                if (n < 2) throw std::runtime_error("BatchNorm needs more than one value per channel, got a batch of one sample");
                double sum = 0, square = 0;
                each_of_channel(l, c, [&](R& a, R&) { sum += a; });
                mean = sum / n;
                each_of_channel(l, c, [&](R& a, R&) { square += (a - mean) * (a - mean); });
                var = square / n;
                if (s.mean >= 0) {
                    t.running_mean[c] += s.momentum * (mean - t.running_mean[c]);
                    t.running_var[c] += s.momentum * (square / (n - 1) - t.running_var[c]);
                }
            } else {
                mean = t.running_mean[c];
                var = t.running_var[c];
            }
            t.mean[c] = mean;
            t.inverse[c] = 1 / std::sqrt(var + s.eps);
            const R m = R(mean), k = R(t.inverse[c]) * scale_of(l, c), shift = shift_of(l, c);
            each_of_channel(l, c, [&](R& a, R& out) { out = (a - m) * k + shift; });
        }
    }

    void batch_norm_back(int l) {
        const LayerSpec& s = net_.layers[l];
        const Statistics& t = stat_[l];
        const double n = double(batch_) * (s.h ? s.h * s.w : 1);
        const bool fixed = mode_ == EVALUATE && s.mean >= 0;  // statistics do not depend on the batch
        grads_.reset(2 * round_up(s.c, L));
        R *grad = grads_.data, *grad_bias = grad + round_up(s.c, L);
        for (int c = 0; c < s.c; ++c) {
            const R m = R(t.mean[c]), inverse = R(t.inverse[c]);
            double sum = 0, dot = 0;
            each_of_channel(l, c, [&](R& a, R& d) { sum += d, dot += d * ((a - m) * inverse); });
            grad[c] = R(dot);
            grad_bias[c] = R(sum);
            const R k = inverse * scale_of(l, c), mean_d = fixed ? R(0) : R(sum / n), mean_dot = fixed ? R(0) : R(dot / n);
            each_of_channel(l, c, [&](R& a, R& d) { a = k * (d - mean_d - (a - m) * inverse * mean_dot); });
        }
        if (net_.weight_at[l] >= 0) apply(net_.weight_at[l], grad, round_up(s.c, L));
        if (net_.bias_at[l] >= 0) apply(net_.bias_at[l], grad_bias, round_up(s.c, L));
    }

    // Statistics per sample and group: vectors over the batch.
    void group_norm(int l) {
        const LayerSpec& s = net_.layers[l];
        const Lane &x = lane_[l], &y = lane_[l + 1];
        Statistics& t = stat_[l];
        const int per = s.c / s.groups, n = batch_;
        const double count = double(per) * s.h * s.w;
        t.mean.assign(std::size_t(s.groups) * n, 0);
        t.inverse.assign(std::size_t(s.groups) * n, 0);
        for (int g = 0; g < s.groups; ++g) {
            double *mean = &t.mean[std::size_t(g) * n], *inverse = &t.inverse[std::size_t(g) * n];
            auto each = [&](auto f) {
                for (int c = g * per; c < (g + 1) * per; ++c)
                    for (int i = 0; i < s.h; ++i)
                        for (int j = 0; j < s.w; ++j) f(c, x.at(c, i) + j * n, y.at(c, i) + j * n);
            };
            each([&](int, const R* a, R*) { for (int b = 0; b < n; ++b) mean[b] += a[b]; });
            for (int b = 0; b < n; ++b) mean[b] /= count;
            each([&](int, const R* a, R*) { for (int b = 0; b < n; ++b) inverse[b] += (a[b] - mean[b]) * (a[b] - mean[b]); });
            for (int b = 0; b < n; ++b) inverse[b] = 1 / std::sqrt(inverse[b] / count + s.eps);
            each([&](int c, const R* a, R* out) {
                const R k = scale_of(l, c), shift = shift_of(l, c);
                for (int b = 0; b < n; ++b) out[b] = R((a[b] - mean[b]) * inverse[b]) * k + shift;
            });
        }
    }

    void group_norm_back(int l) {
        const LayerSpec& s = net_.layers[l];
        const Lane &x = lane_[l], &y = lane_[l + 1];
        const Statistics& t = stat_[l];
        const int per = s.c / s.groups, n = batch_;
        const double count = double(per) * s.h * s.w;
        grads_.reset(2 * round_up(s.c, L));
        R *grad = grads_.data, *grad_bias = grad + round_up(s.c, L);
        std::vector<double> sum(n), dot(n);
        for (int g = 0; g < s.groups; ++g) {
            const double *mean = &t.mean[std::size_t(g) * n], *inverse = &t.inverse[std::size_t(g) * n];
            std::fill(sum.begin(), sum.end(), 0);
            std::fill(dot.begin(), dot.end(), 0);
            for (int c = g * per; c < (g + 1) * per; ++c) {
                const double k = scale_of(l, c);
                double dg = 0, db = 0;
                for (int i = 0; i < s.h; ++i)
                    for (int j = 0; j < s.w; ++j) {
                        const R *a = x.at(c, i) + j * n, *d = y.at(c, i) + j * n;
                        for (int b = 0; b < n; ++b) {
                            const double hat = (a[b] - mean[b]) * inverse[b];
                            dg += d[b] * hat;
                            db += d[b];
                            sum[b] += k * d[b];
                            dot[b] += k * d[b] * hat;
                        }
                    }
                grad[c] = R(dg);
                grad_bias[c] = R(db);
            }
            for (int c = g * per; c < (g + 1) * per; ++c) {
                const double k = scale_of(l, c);
                for (int i = 0; i < s.h; ++i)
                    for (int j = 0; j < s.w; ++j) {
                        R* a = x.at(c, i) + j * n;
                        const R* d = y.at(c, i) + j * n;
                        for (int b = 0; b < n; ++b) {
                            const double hat = (a[b] - mean[b]) * inverse[b];
                            a[b] = R(inverse[b] * (k * d[b] - (sum[b] + hat * dot[b]) / count));
                        }
                    }
            }
        }
        if (net_.weight_at[l] >= 0) apply(net_.weight_at[l], grad, round_up(s.c, L));
        if (net_.bias_at[l] >= 0) apply(net_.bias_at[l], grad_bias, round_up(s.c, L));
    }
};

}  // namespace fedloom

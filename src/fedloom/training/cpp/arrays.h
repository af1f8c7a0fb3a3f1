// What the Python face shares: arrays in and out, refusals, and the network that a description stands for.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "net.h"

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::numpy, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;

template <class T>
static Out<T> make(std::vector<std::size_t> shape, T** data) {
    std::size_t n = 1;
    for (auto s : shape) n *= s;
    T* memory = new T[n ? n : 1]();
    *data = memory;
    nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Out<T>(memory, shape.size(), shape.data(), owner);
}

static void require(bool good, const char* message) {
    if (!good) throw std::invalid_argument(message);
}

namespace fedloom {

// A layer must be one of those we know, follow from the one before, and have its values inside the row.
static void check_layer(const LayerSpec& s, const LayerSpec* before, long n_row) {
    const int limit = 1 << 24;
    require(s.kind >= CONV && s.kind <= FLATTEN, "a layer is of no known kind");
    for (int n : {s.c, s.oc}) require(n >= 1 && n < limit, "a layer has no channels");
    for (int n : {s.h, s.w, s.oh, s.ow, s.kh, s.kw, s.ph, s.pw, s.groups}) require(n >= 0 && n < limit, "a size is negative");
    require((s.h > 0) == (s.w > 0) && (s.oh > 0) == (s.ow > 0), "an image needs a height and a width");
    if (before) require(s.c == before->oc && s.h == before->oh && s.w == before->ow, "layers do not fit together");
    auto inside = [&](long at, long n) { require(at >= -1 && at + (at < 0 ? 0 : n) <= n_row, "a value stands outside the row"); };
    const bool same = s.oc == s.c && s.oh == s.h && s.ow == s.w;
    switch (s.kind) {
        case CONV:
            require(s.kh >= 1 && s.kw >= 1 && s.h > 0, "a convolution needs a kernel and images");
            require(s.oh == s.h + 2 * s.ph - s.kh + 1 && s.ow == s.w + 2 * s.pw - s.kw + 1 && s.oh > 0 && s.weight >= 0, "a convolution's sizes are wrong");
            inside(s.weight, long(s.oc) * s.c * s.kh * s.kw);
            inside(s.bias, s.oc);
            break;
        case LINEAR:
            require(s.h == 0 && s.oh == 0 && s.weight >= 0, "a dense layer needs vectors and weights");
            inside(s.weight, long(s.oc) * s.c);
            inside(s.bias, s.oc);
            break;
        case MAX_POOL:
        case AVG_POOL: require(s.h >= 2 && s.w >= 2 && s.oc == s.c && s.oh == s.h / 2 && s.ow == s.w / 2, "a pooling's sizes are wrong"); break;
        case FLATTEN: require(s.h > 0 && s.oh == 0 && s.oc == s.c * s.h * s.w, "a flattening's sizes are wrong"); break;
        case GROUP_NORM: require(s.h > 0 && s.groups >= 1 && s.c % s.groups == 0, "a group normalisation's groups do not fit"); [[fallthrough]];
        case BATCH_NORM:
            require(same, "a normalisation changes the shape");
            for (long at : {s.weight, s.bias, s.mean, s.var}) inside(at, s.c);
            require((s.mean >= 0) == (s.var >= 0), "a running mean needs a variance");
            break;
        default: require(same && (s.kind != DROPOUT || (s.p >= 0 && s.p < 1)), "a layer changes the shape, or drops everything");
    }
}

static Net make_net(const std::vector<std::vector<double>>& layers, long n_row, int lanes) {
    std::vector<LayerSpec> specs;
    for (const auto& v : layers) {
        require(v.size() == 19, "a layer is described by 19 numbers");
        auto i = [&](int k) { return static_cast<int>(v[k]); };
        specs.push_back({i(0), i(1), i(2), i(3), i(4), i(5), i(6), i(7), i(8), i(9), i(10), i(11), v[12], v[13], v[14],
                         long(v[15]), long(v[16]), long(v[17]), long(v[18]), false});
    }
    require(!specs.empty() && n_row > 0, "a network needs at least one layer and a row");
    for (std::size_t l = 0; l < specs.size(); ++l) check_layer(specs[l], l ? &specs[l - 1] : nullptr, n_row);
    require(specs.back().oh == 0, "a network must end with a vector");
    return Net(specs, n_row, lanes);
}

}  // namespace fedloom

// The kernels in double precision, which only the tests use: compiled with less optimisation (CMakeLists.txt), and under a
// name of their own, so that the linker takes none of this code for the engine's.
#define fedloom fedloom_check64

#include <numeric>

#include "arrays.h"

using namespace fedloom;

// Mean loss and its gradient in double precision, for checks by finite differences.
nb::tuple loss_and_gradient64(const std::vector<std::vector<double>>& layers, long n_row, In<double> row, In<float> x,
                                     In<std::int64_t> labels, bool train_mode) {
    const Net net = make_net(layers, n_row, Simd<double>::n);
    require(row.ndim() == 1 && x.ndim() == 2 && labels.ndim() == 1, "row and labels must be vectors, inputs a matrix");
    require(long(row.shape(0)) == n_row && long(x.shape(1)) == net.n_features && x.shape(0) == labels.shape(0) && x.shape(0) > 0,
            "row, inputs and labels do not fit together");
    const int n = int(x.shape(0));
    for (int i = 0; i < n; ++i)
        require(labels.data()[i] >= 0 && labels.data()[i] < net.n_outputs, "a label is not among the network's outputs");
    std::vector<std::int64_t> index(n);
    std::iota(index.begin(), index.end(), 0);
    double* out;
    auto result = make<double>({std::size_t(n_row)}, &out);
    Worker<double> worker(net);
    worker.read_row(row.data());
    int stride;
    if (train_mode) {  // a step of size one without anything else moves the model by the gradient
        worker.begin(Rule{});
        worker.step(x.data(), index.data(), n, {labels.data(), nullptr}, true, 1.0, 0);
        std::vector<double> after(n_row);
        worker.write_model(after.data());
        for (const Segment& s : net.segments)
            for (int i = 0; i < s.n; ++i) out[s.row + i] = row.data()[s.row + i] - after[s.row + i];
        return nb::make_tuple(0.0, result);
    }
    const double* z = worker.outputs(x.data(), index.data(), n, &stride);
    double loss = 0;
    for (int s = 0; s < n; ++s) {
        const double* y = z + std::ptrdiff_t(s) * stride;
        double sum = 0;
        for (int i = 0; i < net.n_outputs; ++i) sum += std::exp(y[i]);
        loss += (std::log(sum) - y[labels.data()[s]]) / n;
    }
    worker.write_row(out, worker.gradient(x.data(), index.data(), n, n, {labels.data(), nullptr}, true));
    return nb::make_tuple(loss, result);
}

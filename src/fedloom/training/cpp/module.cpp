// The Python face of the native engine; one build per instruction set, see CMakeLists.txt.
#include "arrays.h"
#include "jobs.h"

using namespace fedloom;

nb::tuple loss_and_gradient64(const std::vector<std::vector<double>>& layers, long n_row, In<double> row, In<float> x,
                              In<std::int64_t> labels, bool train_mode);  // check64.cpp

class Engine {
  public:
    Engine(const std::vector<std::vector<double>>& layers, long n_row, In<float> x, nb::object y, bool classify,
           In<std::int64_t> samples, In<std::int64_t> first, int batch_size, bool drop_last, std::uint64_t seed,
           const std::vector<double>& rule)
        : net_(make_net(layers, n_row, Simd<float>::n)), x_(x), samples_(samples), first_(first) {
        require(x.ndim() == 2 && long(x.shape(1)) == net_.n_features, "inputs must be (samples, features) of this network");
        require(samples.ndim() == 1, "samples must be a list");
        require(batch_size >= 1 && batch_size < (1 << 20), "batch_size must be at least 1");
        require(rule.size() == 4, "a rule is weight decay, proximal term, momentum, clipping norm");
        require(first.ndim() == 1 && first.shape(0) >= 1, "first must have one entry per client and one more");
        data_ = {x.data(), make_target(y, classify, long(x.shape(0)), &y_), classify, samples.data(), first.data(), batch_size, drop_last, seed};
        rule_ = {rule[0], rule[1], rule[2], rule[3]};
        require(first.data()[0] == 0 && std::size_t(first.data()[n_clients()]) == samples.shape(0), "first must end with the samples");
        for (std::size_t i = 0; i < samples.shape(0); ++i)
            require(samples.data()[i] >= 0 && std::size_t(samples.data()[i]) < x.shape(0), "a client's sample does not exist");
        for (long k = 0; k < n_clients(); ++k)
            require(first.data()[k] < first.data()[k + 1], "every client needs at least one sample");
    }

    // Train jobs in the order given; sums (targets, P) of weight x result, and the clients whose models are not finite.
    nb::tuple train_average(In<float> starts, In<std::int64_t> jobs, In<double> lr, In<std::int64_t> entry_first,
                            In<std::int64_t> entry_target, In<double> entry_weight, long n_targets, int n_threads) {
        check_jobs(starts, jobs, lr);
        const long n = long(jobs.shape(0));
        require(n_threads >= 1 && n_targets >= 0, "threads must be at least 1 and targets at least 0");
        require(entry_first.ndim() == 1 && entry_first.shape(0) == std::size_t(n + 1), "entry_first must have one entry per job and one more");
        require(entry_target.ndim() == 1 && entry_weight.ndim() == 1 && entry_target.shape(0) == entry_weight.shape(0),
                "every entry needs a target and a weight");
        for (long j = 0; j <= n; ++j) {
            const std::int64_t before = j ? entry_first.data()[j - 1] : 0, now = entry_first.data()[j];
            require(now >= before && std::size_t(now) <= entry_target.shape(0), "entry_first must rise and stay within the entries");
        }
        double* sums;
        auto out = make<double>({std::size_t(n_targets), std::size_t(net_.n_row)}, &sums);
        const std::int64_t *ef = entry_first.data(), *et = entry_target.data();
        const double* ew = entry_weight.data();
        for (std::size_t e = 0; e < entry_target.shape(0); ++e)
            require(et[e] >= 0 && et[e] < n_targets, "a weight is for a target that does not exist");
        auto bad = run(starts.data(), jobs, lr.data(), n_threads, [&](long j, const float* row) {
            for (std::int64_t e = ef[j]; e < ef[j + 1]; ++e) {
                double* sum = sums + et[e] * net_.n_row;
                const double w = ew[e];
                for (long i = 0; i < net_.n_row; ++i) sum[i] += w * row[i];
            }
        });
        return nb::make_tuple(out, bad);
    }

    nb::tuple train(In<float> starts, In<std::int64_t> jobs, In<double> lr, int n_threads) {
        check_jobs(starts, jobs, lr);
        require(n_threads >= 1, "threads must be at least 1");
        float* rows;
        auto out = make<float>({jobs.shape(0), std::size_t(net_.n_row)}, &rows);
        auto bad = run(starts.data(), jobs, lr.data(), n_threads,
                       [&](long j, const float* row) { std::copy_n(row, net_.n_row, rows + j * net_.n_row); });
        return nb::make_tuple(out, bad);
    }

    // Gradient of client[j]'s mean loss at row start[j], (J, P); buffers' places are zero.
    Out<float> gradient(In<float> starts, In<std::int64_t> start, In<std::int64_t> client, int chunk, int n_threads) {
        require(starts.ndim() == 2 && long(starts.shape(1)) == net_.n_row, "rows must have the length of this network");
        require(n_threads >= 1 && chunk >= 1, "threads and samples at a time must be at least 1");
        require(start.ndim() == 1 && client.ndim() == 1 && start.shape(0) == client.shape(0), "every gradient needs a row and a client");
        const long n = long(start.shape(0));
        for (long j = 0; j < n; ++j) check_job(starts, start.data()[j], client.data()[j]);
        float* rows;
        auto out = make<float>({std::size_t(n), std::size_t(net_.n_row)}, &rows);
        nb::gil_scoped_release release;
        const Workers workers(spare_, net_, std::min<long>(n_threads, n));
        in_parallel(n, n_threads, [&](int thread, long j) {
            Worker<float>& w = workers[thread];
            const std::int64_t k = client.data()[j];
            w.read_row(starts.data() + start.data()[j] * net_.n_row);
            const float* g = w.gradient(data_.x, data_.samples + data_.first[k], long(data_.first[k + 1] - data_.first[k]), chunk,
                                        data_.target, data_.classify);
            w.write_row(rows + j * net_.n_row, g);
        });
        return out;
    }

    // Sums over samples of (loss, squared error, absolute error) (M, 3), what was right (M, n), outputs (M, n, o) if asked for.
    nb::tuple evaluate(In<float> rows, In<float> x, nb::object y, int batch, bool want_outputs, int n_threads) {
        require(rows.ndim() == 2 && long(rows.shape(1)) == net_.n_row, "rows must have the length of this network");
        require(x.ndim() == 2 && long(x.shape(1)) == net_.n_features, "inputs must be (samples, features) of this network");
        require(n_threads >= 1 && batch >= 1, "threads and samples at a time must be at least 1");
        const long m = long(rows.shape(0)), n = long(x.shape(0)), piece = 1000, pieces = (n + piece - 1) / piece;
        nb::object hold;
        const Target target = make_target(y, data_.classify, n, &hold);
        const int o = net_.n_outputs;
        double *sums, *part;
        bool* right;
        float* outputs;
        auto sums_out = make<double>({std::size_t(m), 3}, &sums);
        auto part_out = make<double>({std::size_t(m * pieces), 3}, &part);
        auto right_out = make<bool>({std::size_t(m), std::size_t(data_.classify ? n : 0)}, &right);
        auto outputs_out = make<float>({std::size_t(want_outputs ? m : 0), std::size_t(n), std::size_t(o)}, &outputs);
        {
            nb::gil_scoped_release release;
            const Workers workers(spare_, net_, std::min<long>(n_threads, m * pieces));
            std::vector<long> holds(n_threads, -1);
            in_parallel(m * pieces, n_threads, [&](int thread, long task) {
                Worker<float>& w = workers[thread];
                const long r = task / pieces, low = task % pieces * piece, high = std::min(n, low + piece);
                if (holds[thread] != r) w.read_row(rows.data() + r * net_.n_row), holds[thread] = r;
                std::vector<std::int64_t> index(batch);
                for (long a = low; a < high; a += batch) {
                    const int b = int(std::min<long>(batch, high - a));
                    std::iota(index.begin(), index.end(), a);
                    int stride;
                    const float* y_ = w.outputs(x.data(), index.data(), b, &stride);
                    for (int s = 0; s < b; ++s) {
                        const float* z = y_ + std::ptrdiff_t(s) * stride;
                        score(z, o, a + s, target, part + 3 * task, right + r * n);
                        if (want_outputs) std::copy_n(z, o, outputs + (r * n + a + s) * o);
                    }
                }
            });
        }
        for (long task = 0; task < m * pieces; ++task)
            for (int i = 0; i < 3; ++i) sums[task / pieces * 3 + i] += part[3 * task + i];
        return nb::make_tuple(sums_out, right_out, outputs_out);
    }

  private:
    Net net_;
    In<float> x_;
    In<std::int64_t> samples_, first_;
    nb::object y_;
    Data data_{};
    Rule rule_{};
    SpareWorkers spare_;

    long n_clients() const { return long(first_.shape(0)) - 1; }

    // `hold` keeps the numbers alive.
    Target make_target(nb::object y, bool classify, long n, nb::object* hold) const {
        if (classify) {
            auto labels = nb::cast<In<std::int64_t>>(y);
            require(labels.ndim() == 1 && long(labels.shape(0)) == n, "labels must be one per sample");
            for (long i = 0; i < n; ++i)
                require(labels.data()[i] >= 0 && labels.data()[i] < net_.n_outputs, "a label is not among the network's outputs");
            *hold = nb::cast(labels);
            return {labels.data(), nullptr};
        }
        auto values = nb::cast<In<float>>(y);
        require(values.ndim() == 2 && long(values.shape(0)) == n && long(values.shape(1)) == net_.n_outputs,
                "targets must be (samples, outputs)");
        *hold = nb::cast(values);
        return {nullptr, values.data()};
    }

    void check_job(const In<float>& starts, std::int64_t start, std::int64_t client) const {
        require(start >= 0 && std::size_t(start) < starts.shape(0), "a job starts from a row that does not exist");
        require(client >= 0 && client < n_clients(), "a job is for a client that does not exist");
    }

    void check_jobs(const In<float>& starts, const In<std::int64_t>& jobs, const In<double>& lr) const {
        require(starts.ndim() == 2 && long(starts.shape(1)) == net_.n_row, "rows must have the length of this network");
        require(lr.ndim() == 1, "learning rates must be a list");
        require(jobs.ndim() == 2 && jobs.shape(1) == 5, "jobs must be (jobs, 5): start, client, steps, first step, first rate");
        for (std::size_t j = 0; j < jobs.shape(0); ++j) {
            const std::int64_t* job = jobs.data() + 5 * j;
            check_job(starts, job[0], job[1]);
            const std::int64_t most = std::int64_t(1) << 40;
            require(job[2] >= 0 && job[3] >= 0 && job[2] < most && job[3] < most, "steps and step counters must be at least 0");
            require(job[4] >= 0 && job[4] < most && std::size_t(job[4] + job[2]) <= lr.shape(0), "a job has no learning rates");
        }
    }

    template <class Consume>
    std::vector<std::int64_t> run(const float* starts, const In<std::int64_t>& jobs, const double* lr, int n_threads, Consume consume) {
        nb::gil_scoped_release release;
        const long n = long(jobs.shape(0));
        const std::int64_t* job = jobs.data();
        std::vector<char> finite(n, 1);
        InOrder order(n, std::min<long>(n, 4L * n_threads), net_.n_row);
        const Workers workers(spare_, net_, std::min<long>(n_threads, n));
        in_parallel(n, n_threads, [&](int thread, long j) {
            try {
                order.wait_for_room(j);
                const std::int64_t* a = job + 5 * j;
                finite[j] = train_client(workers[thread], net_, data_, rule_, starts + a[0] * net_.n_row, long(a[1]), long(a[2]),
                                         long(a[3]), lr + a[4], order.slot(j));
                order.finished(j, consume);
            } catch (...) {
                order.stop();
                throw;
            }
        });
        std::vector<std::int64_t> bad;
        for (long j = 0; j < n; ++j)
            if (!finite[j]) bad.push_back(job[5 * j + 1]);
        return bad;
    }

    void score(const float* z, int o, long sample, const Target& target, double* sums, bool* right) const {
        if (!data_.classify) {
            double square = 0, absolute = 0;
            for (int i = 0; i < o; ++i) {
                const double e = double(z[i]) - target.value[sample * o + i];
                square += e * e;
                absolute += std::fabs(e);
            }
            sums[0] += square / o, sums[1] += square / o, sums[2] += absolute / o;
            return;
        }
        int best = 0;
        for (int i = 1; i < o; ++i)
            if (z[i] > z[best]) best = i;
        double sum = 0;
        for (int i = 0; i < o; ++i) sum += std::exp(double(z[i]) - z[best]);
        sums[0] += std::log(sum) - (double(z[target.label[sample]]) - z[best]);
        right[sample] = best == target.label[sample];
    }
};

static std::string best_instructions() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
    return "baseline";
}

NB_MODULE(FEDLOOM_MODULE, m) {
    m.doc() = "Native training engine of FedLoom, built for one instruction set.";
    m.def("best_instructions", &best_instructions, "Which of the builds suits this processor.");
    m.def("loss_and_gradient64", &loss_and_gradient64);
    nb::class_<Engine>(m, "Engine")
        .def(nb::init<const std::vector<std::vector<double>>&, long, In<float>, nb::object, bool, In<std::int64_t>, In<std::int64_t>,
                      int, bool, std::uint64_t, const std::vector<double>&>())
        .def("train_average", &Engine::train_average)
        .def("train", &Engine::train)
        .def("gradient", &Engine::gradient)
        .def("evaluate", &Engine::evaluate);
    m.attr("LANES") = Simd<float>::n;
}

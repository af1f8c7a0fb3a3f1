// The Python face of the native engine.
#pragma once

#include "arrays.h"
#include "chain.h"

#ifdef FEDLOOM_CHECKS
nb::tuple loss_and_gradient64(const std::vector<std::vector<double>>& layers, long n_row, In<double> row, In<float> x,
                              In<std::int64_t> labels, bool train_mode);  // check64.cpp
#endif

namespace engine {

using namespace fedloom;

class Engine {
  public:
    Engine(const std::vector<std::vector<double>>& layers, long n_row, In<float> x, nb::object y, bool classify,
           In<std::int64_t> samples, In<std::int64_t> first, int batch_size, bool drop_last, std::uint64_t seed,
           const std::vector<double>& rule)
        : net_(make_net(layers, n_row, Simd<float>::n)), x_(x), samples_(samples), first_(first) {
        require(x.ndim() == 2 && long(x.shape(1)) == net_.n_features, "inputs must be (samples, features) of this network");
        require(samples.ndim() == 1, "samples must be a list");
        require(batch_size >= 1 && batch_size < (1 << 20), "batch_size must be at least 1");
        require(rule.size() == 4 || rule.size() == 8,
                "a rule is weight decay, proximal term, momentum, clipping norm, and of Adam beta1, beta2, eps, decoupled");
        require(first.ndim() == 1 && first.shape(0) >= 1, "first must have one entry per client and one more");
        data_ = {x.data(), make_target(y, classify, long(x.shape(0)), &y_), classify, samples.data(), first.data(), batch_size, drop_last, seed};
        rule_ = {rule[0], rule[1], rule[2], rule[3]};
        if (rule.size() == 8) rule_ = {rule[0], rule[1], rule[2], rule[3], rule[4], rule[5], rule[6], rule[7] != 0};
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
        check_entries(entry_first, entry_target, entry_weight, n, n_targets);
        double* sums;
        auto out = make<double>({std::size_t(n_targets), std::size_t(net_.n_row)}, &sums);
        const Entries entries{entry_first.data(), entry_target.data(), entry_weight.data()};
        auto bad = run(starts.data(), jobs, lr.data(), n_threads, [&](long low, long high, auto row) {
            add_results(entries, low, high, net_.n_row, row, [&](std::int64_t target) { return sums + target * net_.n_row; });
        });
        return nb::make_tuple(out, bad);
    }

    // Waves of jobs, see chain.h. Returns the models that were made, the numbers and values of the sums that are left, how many
    // waves were trained, and the clients whose models are not finite: after them no wave is trained.
    nb::tuple train_chain(In<float> given, In<double> carried, In<std::int64_t> jobs, In<double> lr, In<std::int64_t> job_first,
                          In<std::int64_t> entry_first, In<std::int64_t> entry_sum, In<double> entry_weight,
                          In<std::int64_t> add_first, In<std::int64_t> adds, In<std::int64_t> model_first,
                          In<std::int64_t> model_sum, In<std::int64_t> part_first, In<std::int64_t> part_slot,
                          In<double> part_weight, long n_sums, double seconds, int n_threads) {
        require(n_threads >= 1 && n_sums >= 0, "threads must be at least 1 and sums at least 0");
        require(carried.ndim() == 2 && long(carried.shape(1)) == net_.n_row && long(carried.shape(0)) <= n_sums,
                "carried sums must have the length of this network");
        require(job_first.ndim() == 1 && job_first.shape(0) >= 1, "job_first must have one entry per wave and one more");
        const long n_waves = long(job_first.shape(0)) - 1, n_models = long(model_sum.shape(0));
        check_jobs(given, jobs, lr, n_models);
        check_entries(entry_first, entry_sum, entry_weight, long(jobs.shape(0)), n_sums);
        check_entries(part_first, part_slot, part_weight, n_models, n_models + long(given.shape(0)));
        check_firsts(job_first, n_waves, long(jobs.shape(0)));
        check_firsts(add_first, n_waves, long(adds.shape(0)));
        check_firsts(model_first, n_waves, n_models);
        require(adds.ndim() == 2 && adds.shape(1) == 2, "adds must be (adds, 2)");
        for (std::size_t i = 0; i < 2 * adds.shape(0); ++i) require(adds.data()[i] >= 0 && adds.data()[i] < n_sums, "a sum does not exist");
        for (long m = 0; m < n_models; ++m) require(model_sum.data()[m] >= -1 && model_sum.data()[m] < n_sums, "a sum does not exist");
        float* made;
        auto made_out = make<float>({std::size_t(n_models), std::size_t(net_.n_row)}, &made);
        const Chain chain{n_waves, n_models, long(carried.shape(0)), n_sums, given.data(), carried.data(), jobs.data(), job_first.data(),
                          lr.data(), entry_first.data(), entry_sum.data(), entry_weight.data(), add_first.data(), adds.data(),
                          model_first.data(), model_sum.data(), part_first.data(), part_slot.data(), part_weight.data(), seconds};
        check_slots(chain);
        Sums sums(n_sums, net_.n_row);
        std::vector<std::int64_t> bad;
        long done;
        {
            nb::gil_scoped_release release;
            done = run_chain(chain, sums, made, n_threads, bad);
        }
        const auto left = sums.in_use();
        double* values;
        auto values_out = make<double>({left.size(), std::size_t(net_.n_row)}, &values);
        for (std::size_t i = 0; i < left.size(); ++i) std::copy_n(sums[left[i]], net_.n_row, values + i * net_.n_row);
        return nb::make_tuple(made_out, left, values_out, done, bad);
    }

    nb::tuple train(In<float> starts, In<std::int64_t> jobs, In<double> lr, int n_threads) {
        check_jobs(starts, jobs, lr);
        require(n_threads >= 1, "threads must be at least 1");
        float* rows;
        auto out = make<float>({jobs.shape(0), std::size_t(net_.n_row)}, &rows);
        auto bad = run(starts.data(), jobs, lr.data(), n_threads, [&](long low, long high, auto row) {
            for (long j = low; j < high; ++j) std::copy_n(row(j), net_.n_row, rows + j * net_.n_row);
        });
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
        pool_.run(n, n_threads, [&](int thread, long j) {
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
            pool_.run(m * pieces, n_threads, [&](int thread, long task) {
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

    // The threads end; they are started again when they are needed.
    void close() {
        nb::gil_scoped_release release;
        pool_.stop();
    }

  private:
    Net net_;
    In<float> x_;
    In<std::int64_t> samples_, first_;
    nb::object y_;
    Data data_{};
    Rule rule_{};
    SpareWorkers spare_;
    Pool pool_;

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

    void check_job(const In<float>& starts, std::int64_t start, std::int64_t client, long n_models = 0) const {
        require(start >= 0 && start < std::int64_t(starts.shape(0)) + n_models, "a job starts from a row that does not exist");
        require(client >= 0 && client < n_clients(), "a job is for a client that does not exist");
    }

    // n_models: rows that do not exist yet, before those that do.
    void check_jobs(const In<float>& starts, const In<std::int64_t>& jobs, const In<double>& lr, long n_models = 0) const {
        require(starts.ndim() == 2 && long(starts.shape(1)) == net_.n_row, "rows must have the length of this network");
        require(lr.ndim() == 1, "learning rates must be a list");
        require(jobs.ndim() == 2 && jobs.shape(1) == 5, "jobs must be (jobs, 5): start, client, steps, first step, first rate");
        for (std::size_t j = 0; j < jobs.shape(0); ++j) {
            const std::int64_t* job = jobs.data() + 5 * j;
            check_job(starts, job[0], job[1], n_models);
            const std::int64_t most = std::int64_t(1) << 40;
            require(job[2] >= 0 && job[3] >= 0 && job[2] < most && job[3] < most, "steps and step counters must be at least 0");
            require(job[4] >= 0 && job[4] < most && std::size_t(job[4] + job[2]) <= lr.shape(0), "a job has no learning rates");
        }
    }

    static void check_firsts(const In<std::int64_t>& first, long n, long limit) {
        require(first.ndim() == 1 && long(first.shape(0)) == n + 1, "a list of beginnings must have one entry for each and one more");
        for (long i = 0; i <= n; ++i)
            require(first.data()[i] >= (i ? first.data()[i - 1] : 0) && first.data()[i] <= limit, "beginnings must rise and stay within");
    }

    // n jobs or models with entries of a place below n_places and a weight.
    static void check_entries(const In<std::int64_t>& first, const In<std::int64_t>& place, const In<double>& weight, long n, long n_places) {
        require(place.ndim() == 1 && weight.ndim() == 1 && place.shape(0) == weight.shape(0), "every entry needs a place and a weight");
        check_firsts(first, n, long(place.shape(0)));
        for (std::size_t e = 0; e < place.shape(0); ++e)
            require(place.data()[e] >= 0 && place.data()[e] < n_places, "a weight is for a place that does not exist");
    }

    // Nothing is made of a model, or started from one, that does not exist yet.
    static void check_slots(const Chain& c) {
        for (long wave = 0; wave < c.n_waves; ++wave) {
            auto known = [&](std::int64_t slot, std::int64_t limit) { require(slot < limit || slot >= c.n_models, "a model is used before it is made"); };
            for (long m = c.model_first[wave]; m < c.model_first[wave + 1]; ++m)
                for (std::int64_t p = c.part_first[m]; p < c.part_first[m + 1]; ++p) known(c.part_slot[p], m);
            for (long j = c.job_first[wave]; j < c.job_first[wave + 1]; ++j) known(c.job[5 * j], c.model_first[wave + 1]);
        }
    }

    // Jobs low..high-1 from row(slot), results row(job) to consume(first job, end, row) in this order; notes in `bad` the clients
    // whose are not finite.
    template <class Row, class Consume>
    void train_jobs(long low, long high, const std::int64_t* job, const double* lr, int n_threads, const Workers& workers, InOrder& order,
                    std::vector<std::int64_t>& bad, Row row, Consume consume) {
        std::vector<char> finite(high - low, 1);
        order.begin(high - low);
        pool_.run(high - low, n_threads, [&](int thread, long i) {
            try {
                order.wait_for_room(i);
                const std::int64_t* a = job + 5 * (low + i);
                finite[i] = train_client(workers[thread], net_, data_, rule_, row(a[0]), long(a[1]), long(a[2]), long(a[3]), lr + a[4],
                                         order.slot(i));
                order.finished(i, [&](long a, long b) {
                    consume(low + a, low + b, [&](long j) { return static_cast<const float*>(order.slot(j - low)); });
                });
            } catch (...) {
                order.stop();
                throw;
            }
        });
        for (long i = 0; i < high - low; ++i)
            if (!finite[i]) bad.push_back(job[5 * (low + i) + 1]);
    }

    template <class Consume>
    std::vector<std::int64_t> run(const float* starts, const In<std::int64_t>& jobs, const double* lr, int n_threads, Consume consume) {
        nb::gil_scoped_release release;
        const long n = long(jobs.shape(0));
        InOrder order(std::min<long>(n, 4L * n_threads), net_.n_row);
        const Workers workers(spare_, net_, std::min<long>(n_threads, n));
        std::vector<std::int64_t> bad;
        train_jobs(0, n, jobs.data(), lr, n_threads, workers, order, bad, [&](std::int64_t r) { return starts + r * net_.n_row; }, consume);
        return bad;
    }

    // Returns the number of waves that were trained.
    long run_chain(const Chain& c, Sums& sums, float* made, int n_threads, std::vector<std::int64_t>& bad) {
        using Clock = std::chrono::steady_clock;
        const auto begun = Clock::now();
        const long n_row = net_.n_row;
        long most = 0;
        for (long w = 0; w < c.n_waves; ++w) most = std::max<long>(most, c.job_first[w + 1] - c.job_first[w]);
        InOrder order(std::min<long>(most, 4L * n_threads), n_row);
        const Workers workers(spare_, net_, std::min<long>(n_threads, most));
        std::vector<double> nothing(n_row);
        for (long i = 0; i < c.n_carried; ++i) std::copy_n(c.carried + i * n_row, n_row, sums.begin(i));
        long wave = 0;
        while (wave < c.n_waves) {
            make_models(c, wave, sums, nothing, made, n_row);
            for (std::int64_t e = c.entry_first[c.job_first[wave]]; e < c.entry_first[c.job_first[wave + 1]]; ++e)
                if (!sums[c.entry_sum[e]]) sums.begin(c.entry_sum[e]);
            train_jobs(c.job_first[wave], c.job_first[wave + 1], c.job, c.lr, n_threads, workers, order, bad,
                       [&](std::int64_t slot) { return c.row(slot, made, n_row); },
                       [&](long low, long high, auto row) {
                           add_results({c.entry_first, c.entry_sum, c.entry_weight}, low, high, n_row, row,
                                       [&](std::int64_t number) { return sums[number]; });
                       });
            for (std::int64_t a = c.add_first[wave]; a < c.add_first[wave + 1]; ++a) sums.join(c.add[2 * a], c.add[2 * a + 1]);
            ++wave;
            if (!bad.empty() || std::chrono::duration<double>(Clock::now() - begun).count() > c.seconds) break;
        }
        return wave;
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

static void define(nb::module_& m) {
#ifdef FEDLOOM_CHECKS
    m.def("loss_and_gradient64", &loss_and_gradient64);
#endif
    nb::class_<Engine>(m, "Engine")
        .def(nb::init<const std::vector<std::vector<double>>&, long, In<float>, nb::object, bool, In<std::int64_t>, In<std::int64_t>,
                      int, bool, std::uint64_t, const std::vector<double>&>())
        .def("train_average", &Engine::train_average)
        .def("train_chain", &Engine::train_chain)
        .def("train", &Engine::train)
        .def("gradient", &Engine::gradient)
        .def("evaluate", &Engine::evaluate)
        .def("close", &Engine::close);
    m.attr("LANES") = Simd<float>::n;
}

}  // namespace engine

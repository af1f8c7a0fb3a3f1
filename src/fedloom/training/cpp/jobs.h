// Many jobs on many threads, with results that do not depend on the number of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "net.h"

namespace fedloom {

// Run work(thread, task) for tasks 0..n-1; the first exception is rethrown here.
template <class Work>
void in_parallel(long n, int n_threads, Work work) {
    std::atomic<long> next{0};
    std::exception_ptr error;
    std::mutex lock;
    auto run = [&](int thread) {
        try {
            for (long task; (task = next++) < n;) work(thread, task);
        } catch (...) {
            next = n;
            std::lock_guard<std::mutex> guard(lock);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < n_threads && t < n; ++t) threads.emplace_back(run, t);
    run(0);
    for (auto& t : threads) t.join();
    if (error) std::rethrow_exception(error);
}

// Hands results to consume(task, row) in the order of the tasks, while later ones are still being computed.
class InOrder {
  public:
    InOrder(long n, long ring, long n_row) : ring_(ring), done_(n), rows_(ring * n_row), n_row_(n_row) {}
    float* slot(long task) { return rows_.data() + (task % ring_) * n_row_; }
    void wait_for_room(long task) {
        std::unique_lock<std::mutex> guard(lock_);
        moved_.wait(guard, [&] { return stopped_ || task < next_ + ring_; });
    }
    template <class Consume>
    void finished(long task, Consume consume) {
        std::lock_guard<std::mutex> guard(lock_);
        done_[task] = 1;
        bool moved = false;
        while (next_ < long(done_.size()) && done_[next_]) {
            consume(next_, slot(next_));
            ++next_;
            moved = true;
        }
        if (moved) moved_.notify_all();
    }
    void stop() {
        std::lock_guard<std::mutex> guard(lock_);
        stopped_ = true;
        moved_.notify_all();
    }

  private:
    long ring_, next_ = 0;
    bool stopped_ = false;
    std::vector<char> done_;
    std::vector<float> rows_;
    long n_row_;
    std::mutex lock_;
    std::condition_variable moved_;
};

struct Data {
    const float* x;
    Target target;
    bool classify;
    const std::int64_t* samples;  // of all clients, one after the other
    const std::int64_t* first;    // where each client's samples begin, clients + 1 entries
    int batch_size;
    bool drop_last;
    std::uint64_t seed;
};

// The order of one pass of a client: samples sorted by a hash of (seed, client, pass, sample); see batches.py.
inline void pass_order(std::uint64_t seed, long client, long pass, long n, std::vector<std::pair<std::uint64_t, std::int64_t>>& out) {
    std::uint64_t key = mix64(mix64(mix64(seed) ^ std::uint64_t(client)) ^ std::uint64_t(pass));
    out.resize(n);
    for (long i = 0; i < n; ++i) out[i] = {mix64(key ^ std::uint64_t(i)), i};
    std::sort(out.begin(), out.end());
}

inline std::uint64_t dropout_key(std::uint64_t seed, long client, long step) {
    return mix64(mix64(mix64(seed ^ 0xD1B54A32D192ED03ull) ^ std::uint64_t(client)) ^ std::uint64_t(step));
}

// One client from a start row to a result row.
inline bool train_client(Worker<float>& worker, const Net& net, const Data& data, const Rule& rule, const float* start,
                         long client, long n_steps, long first_step, const double* lr, float* result) {
    const long n = long(data.first[client + 1] - data.first[client]);
    const std::int64_t* samples = data.samples + data.first[client];
    const long whole = data.drop_last ? n / data.batch_size : (n + data.batch_size - 1) / data.batch_size;
    const long per_pass = std::max<long>(1, whole);
    std::vector<std::pair<std::uint64_t, std::int64_t>> order;
    std::vector<std::int64_t> index(data.batch_size);
    worker.read_row(start);
    worker.begin(rule);
    for (long s = 0; s < n_steps; ++s) {
        const long step = first_step + s, pass = step / per_pass, position = step % per_pass;
        if (s == 0 || position == 0) pass_order(data.seed, client, pass, n, order);
        const long from = position * data.batch_size, to = std::min<long>(n, from + data.batch_size);
        for (long i = from; i < to; ++i) index[i - from] = samples[order[i].second];
        worker.step(data.x, index.data(), int(to - from), data.target, data.classify, lr[s],
                    dropout_key(data.seed, client, step));
    }
    std::copy_n(start, net.n_row, result);  // integer buffers and the like stay as they are
    worker.write_model(result);
    double sum = 0;
    for (long i = 0; i < net.n_row; ++i) sum += result[i];
    return std::isfinite(sum);
}

}  // namespace fedloom

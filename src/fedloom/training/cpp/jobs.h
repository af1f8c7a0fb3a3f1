// Many jobs on many threads, with results that do not depend on the number of threads.
#pragma once

#include <condition_variable>
#include <mutex>
#include <numeric>

#include "net.h"
#include "pool.h"

namespace fedloom {

// Hands results to consume(first task, end) in the order of the tasks, several at a time, while others are being computed.
class InOrder {
  public:
    InOrder(long ring, long n_row) : ring_(ring), rows_(ring * n_row), n_row_(n_row) {}
    // n tasks follow, after all before are consumed.
    void begin(long n) {
        next_ = 0;
        done_.assign(n, 0);
    }
    float* slot(long task) { return rows_.data() + (task % ring_) * n_row_; }
    void wait_for_room(long task) {
        std::unique_lock<std::mutex> guard(lock_);
        moved_.wait(guard, [&] { return stopped_ || task < next_ + ring_; });
    }
    template <class Consume>
    void finished(long task, Consume consume) {
        std::unique_lock<std::mutex> guard(lock_);
        done_[task] = 1;
        if (consuming_) return;  // whoever does looks again
        const long n = long(done_.size());
        for (;;) {
            long end = next_;
            while (end < n && done_[end]) ++end;
            if (end == next_ || (end < n && end - next_ < (ring_ + 1) / 2)) return;
            consuming_ = true;
            guard.unlock();
            consume(next_, end);
            guard.lock();
            consuming_ = false;
            next_ = end;
            moved_.notify_all();
        }
    }
    void stop() {
        std::lock_guard<std::mutex> guard(lock_);
        stopped_ = true;
        moved_.notify_all();
    }

  private:
    long ring_, next_ = 0;
    bool stopped_ = false, consuming_ = false;
    std::vector<char> done_;
    std::vector<float> rows_;
    long n_row_;
    std::mutex lock_;
    std::condition_variable moved_;
};

// Workers that no call uses now: their memory is kept for the next one.
struct SpareWorkers {
    std::mutex lock;
    std::vector<std::unique_ptr<Worker<float>>> list;
};

// The workers of one call, from the spare ones as far as they go.
class Workers {
  public:
    Workers(SpareWorkers& spare, const Net& net, long n) : spare_(spare) {
        std::lock_guard<std::mutex> guard(spare_.lock);
        for (long i = 0; i < std::max<long>(1, n); ++i) {
            if (spare_.list.empty()) spare_.list.push_back(std::make_unique<Worker<float>>(net));
            mine_.push_back(std::move(spare_.list.back()));
            spare_.list.pop_back();
        }
    }
    ~Workers() {
        std::lock_guard<std::mutex> guard(spare_.lock);
        for (auto& worker : mine_) spare_.list.push_back(std::move(worker));
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    Worker<float>& operator[](int i) const { return *mine_[i]; }

  private:
    SpareWorkers& spare_;
    std::vector<std::unique_ptr<Worker<float>>> mine_;
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

// The order of one pass of a client: samples sorted by a hash of (seed, client, pass, sample); see batches.py. Hashes are
// uniform: dealt out to as many buckets as there are samples, they are nearly sorted, and insertion does the rest.
class PassOrder {
  public:
    void make(std::uint64_t seed, long client, long pass, long n) {
        const std::uint64_t key = mix64(mix64(mix64(seed) ^ std::uint64_t(client)) ^ std::uint64_t(pass));
        hash_.resize(n);
        sorted_.resize(n);
        end_.assign(n + 1, 0);
        auto bucket = [n](std::uint64_t hash) { return ((hash >> 32) * std::uint64_t(n)) >> 32; };
        for (long i = 0; i < n; ++i) {
            hash_[i] = mix64(key ^ std::uint64_t(i));
            ++end_[bucket(hash_[i]) + 1];
        }
        std::partial_sum(end_.begin(), end_.end(), end_.begin());
        for (long i = 0; i < n; ++i) sorted_[end_[bucket(hash_[i])]++] = {hash_[i], i};
        for (long i = 1; i < n; ++i) {
            const auto one = sorted_[i];
            long j = i;
            for (; j > 0 && one < sorted_[j - 1]; --j) sorted_[j] = sorted_[j - 1];
            sorted_[j] = one;
        }
    }
    long operator[](long i) const { return sorted_[i].second; }

  private:
    std::vector<std::uint64_t> hash_;
    std::vector<std::pair<std::uint64_t, long>> sorted_;
    std::vector<long> end_;
};

inline std::uint64_t dropout_key(std::uint64_t seed, long client, long step) {
    return mix64(mix64(mix64(seed ^ 0xD1B54A32D192ED03ull) ^ std::uint64_t(client)) ^ std::uint64_t(step));
}

inline bool all_finite(const float* x, long n) {
    constexpr int L = Simd<float>::n;
    Vec<float> sum{};  // zero, or NaN from the first that is not finite
    long i = 0;
    for (; i + L <= n; i += L) sum += load(x + i) - load(x + i);
    float rest = lanes_sum<float>(sum);
    for (; i < n; ++i) rest += x[i] - x[i];
    return rest == 0;
}

// sum += weight * row, in double precision; one rounding each where the processor can.
inline void add_result(double* sum, const float* row, double weight, long n) {
    for (long i = 0; i < n; ++i) sum[i] += weight * row[i];
}

// Results are added to sums: which job's to which, by what weight; a job's entries begin at first[job].
struct Entries {
    const std::int64_t *first, *sum;
    const double* weight;
};

// Add the results row(j) of jobs low..high-1 one after the other, a piece of them all at a time: it stays in the cache.
template <class Row, class Sum>
void add_results(const Entries& e, long low, long high, long n_row, Row row, Sum sum) {
    constexpr long piece = 1024;
    for (long a = 0; a < n_row; a += piece)
        for (long j = low; j < high; ++j)
            for (std::int64_t k = e.first[j]; k < e.first[j + 1]; ++k)
                add_result(sum(e.sum[k]) + a, row(j) + a, e.weight[k], std::min(piece, n_row - a));
}

// The samples of a client's steps, in the order of its passes over them.
class Batches {
  public:
    Batches(const Data& data, long client)
        : data_(data), client_(client), n_(long(data.first[client + 1] - data.first[client])),
          samples_(data.samples + data.first[client]) {}
    // Those of a step; steps are asked for one after the other.
    void of(long step, std::vector<std::int64_t>& index) {
        const long whole = data_.drop_last ? n_ / data_.batch_size : (n_ + data_.batch_size - 1) / data_.batch_size;
        const long per_pass = std::max<long>(1, whole), pass = step / per_pass, from = step % per_pass * data_.batch_size;
        if (pass != pass_) order_.make(data_.seed, client_, pass_ = pass, n_);
        index.clear();
        for (long i = from; i < std::min<long>(n_, from + data_.batch_size); ++i) index.push_back(samples_[order_[i]]);
    }

  private:
    const Data& data_;
    long client_, n_, pass_ = -1;
    const std::int64_t* samples_;
    PassOrder order_;
};

// One client from a start row to a result row.
inline bool train_client(Worker<float>& worker, const Net& net, const Data& data, const Rule& rule, const float* start,
                         long client, long n_steps, long first_step, const double* lr, float* result) {
    Batches batches(data, client);
    std::vector<std::int64_t> index, next;
    worker.read_row(start);
    worker.begin(rule);
    if (n_steps > 0) batches.of(first_step, next);
    for (long s = 0; s < n_steps; ++s) {
        index.swap(next);
        next.clear();
        if (s + 1 < n_steps) batches.of(first_step + s + 1, next);
        worker.expect(data.x, next.data(), int(next.size()));
        worker.step(data.x, index.data(), int(index.size()), data.target, data.classify, lr[s],
                    dropout_key(data.seed, client, first_step + s));
    }
    if (net.n_known < net.n_row) std::copy_n(start, net.n_row, result);  // integer buffers and the like stay as they are
    worker.write_model(result);
    return all_finite(result, net.n_row);
}

}  // namespace fedloom

// Several waves of jobs in one call, with the models that are made between them; fedloom/training/chain.py says what that is.
#pragma once

#include <chrono>

#include "jobs.h"

namespace fedloom {

// What is to be done, checked by module.cpp. Slots: first the models that are made on the way, then the rows that are given.
// Sums have numbers: first those that are carried over, then new ones.
struct Chain {
    long n_waves, n_models, n_carried, n_sums;
    const float* given;
    const double* carried;
    const std::int64_t* job;           // (jobs, 5): slot, client, steps, first step, first rate
    const std::int64_t* job_first;     // (waves + 1)
    const double* lr;
    const std::int64_t *entry_first, *entry_sum;  // (jobs + 1); (entries): the sum that a job's result is added to
    const double* entry_weight;
    const std::int64_t *add_first, *add;          // (waves + 1); (adds, 2): after the wave the second sum is added to the first
    const std::int64_t *model_first, *model_sum;  // (waves + 1): models made before the wave; their sums or -1
    const std::int64_t *part_first, *part_slot;   // (models + 1); what else they are made of
    const double* part_weight;
    double seconds;  // no wave is begun later

    const float* row(std::int64_t slot, const float* made, long n_row) const {
        return slot < n_models ? made + slot * n_row : given + (slot - n_models) * n_row;
    }
};

// The sums that are in use, by number; memory of those that are not is used again.
class Sums {
  public:
    Sums(long n, long n_row) : of_(n), n_row_(n_row) {}
    double* begin(long number) {
        if (spare_.empty()) spare_.push_back(std::make_unique<double[]>(n_row_));
        of_[number] = std::move(spare_.back());
        spare_.pop_back();
        std::fill_n(of_[number].get(), n_row_, 0.0);
        return of_[number].get();
    }
    double* operator[](long number) const { return of_[number].get(); }
    void end(long number) { spare_.push_back(std::move(of_[number])); }
    // Add the second to the first; it is in use no longer.
    void join(long into, long from) {
        double *to = of_[into].get(), *what = of_[from].get();
        if (into == from || !to || !what) throw std::invalid_argument("sums are added that are not in use");
        for (long i = 0; i < n_row_; ++i) to[i] += what[i];
        end(from);
    }
    std::vector<std::int64_t> in_use() const {
        std::vector<std::int64_t> found;
        for (std::size_t i = 0; i < of_.size(); ++i)
            if (of_[i]) found.push_back(std::int64_t(i));
        return found;
    }

  private:
    std::vector<std::unique_ptr<double[]>> of_, spare_;
    long n_row_;
};

// total += weight * row with the product rounded before it is added, as numpy does it: the barrier keeps the compiler from
// fusing the two.
inline void add_model(double* total, const float* row, double weight, long n) {
    constexpr long piece = 256;
    double product[piece];
    for (long a = 0; a < n; a += piece) {
        const long b = std::min(piece, n - a);
        for (long i = 0; i < b; ++i) product[i] = weight * row[a + i];
        asm volatile("" : : "r"(product) : "memory");
        for (long i = 0; i < b; ++i) total[a + i] += product[i];
    }
}

// The models that are due before a wave: their sum plus what else they are made of.
inline void make_models(const Chain& c, long wave, Sums& sums, std::vector<double>& nothing, float* made, long n_row) {
    for (long m = c.model_first[wave]; m < c.model_first[wave + 1]; ++m) {
        double* total = c.model_sum[m] < 0 ? nothing.data() : sums[c.model_sum[m]];
        if (!total) throw std::invalid_argument("a model is made of a sum that is not in use");
        if (c.model_sum[m] < 0) std::fill(nothing.begin(), nothing.end(), 0.0);
        for (std::int64_t p = c.part_first[m]; p < c.part_first[m + 1]; ++p)
            add_model(total, c.row(c.part_slot[p], made, n_row), c.part_weight[p], n_row);
        for (long i = 0; i < n_row; ++i) made[m * n_row + i] = float(total[i]);
        if (c.model_sum[m] >= 0) sums.end(c.model_sum[m]);
    }
}

}  // namespace fedloom

// Threads that are kept from call to call: for small models, starting them would take as long as a good part of the work.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

namespace fedloom {

// Threads 1, 2, ... wait for work; thread 0 is whoever calls. They are joined by `stop` and with the pool. A process that was
// forked off has none of them: it leaves what it knows of them behind, locks included, and starts its own.
class Pool {
  public:
    Pool() = default;
    ~Pool() {
        stop();
        Crew* mine = crew_;
        if (mine && mine->owner == getpid()) delete mine;
    }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    // Run work(thread, task) for tasks 0..n-1 on at most n_threads threads; the first exception is rethrown here.
    template <class Work>
    void run(long n, int n_threads, Work work) {
        std::atomic<long> next{0};
        std::exception_ptr error;
        std::mutex lock;
        together(int(std::min<long>(n, n_threads)), [&](int thread) {
            try {
                for (long task; (task = next++) < n;) work(thread, task);
            } catch (...) {
                next = n;
                std::lock_guard<std::mutex> guard(lock);
                if (!error) error = std::current_exception();
            }
        });
        if (error) std::rethrow_exception(error);
    }

    void stop() {
        Crew* mine = crew_;
        if (!mine || mine->owner != getpid()) return;
        std::lock_guard<std::mutex> one_call(mine->calling);
        {
            std::lock_guard<std::mutex> guard(mine->lock);
            mine->closing = true;
            mine->begin.notify_all();
        }
        for (auto& thread : mine->threads) thread.join();
        mine->threads.clear();
        mine->closing = false;
    }

  private:
    struct Crew {
        const pid_t owner = getpid();
        std::mutex calling;  // one call at a time
        std::mutex lock;
        std::condition_variable begin, over;
        std::function<void(int)> work;
        std::atomic<long> call{0};         // its number
        int wanted = 0;                    // threads of this call but the caller's
        std::atomic<int> busy{0};          // those of them at work
        std::atomic<bool> closing{false};
        std::vector<std::thread> threads;
    };

    std::atomic<Crew*> crew_{nullptr};

    // work(thread) on threads 0..n-1, or on fewer if the system has no more.
    void together(int n, const std::function<void(int)>& work) {
        if (n <= 1) {
            work(0);
            return;
        }
        Crew& crew = hire(n - 1);
        const std::lock_guard<std::mutex> one_call(crew.calling, std::adopt_lock);
        {
            std::lock_guard<std::mutex> guard(crew.lock);
            crew.work = work;
            crew.busy = crew.wanted = std::min<int>(n - 1, int(crew.threads.size()));
            ++crew.call;
            crew.begin.notify_all();
        }
        work(0);
        look_for([&] { return crew.busy == 0; });
        std::unique_lock<std::mutex> guard(crew.lock);
        crew.over.wait(guard, [&] { return crew.busy == 0; });
        crew.work = nullptr;
    }

    // The crew with so many threads, if they can be had; `calling` is locked.
    Crew& hire(int n) {
        Crew* mine = crew_;
        while (!mine || mine->owner != getpid()) {
            Crew* fresh = new Crew;
            if (crew_.compare_exchange_strong(mine, fresh)) mine = fresh;
            else delete fresh;
        }
        mine->calling.lock();
        try {
            for (int i = int(mine->threads.size()); i < n; ++i) mine->threads.emplace_back(serve, mine, i, mine->call.load());
        } catch (const std::system_error&) {  // fewer do as well
        }
        return *mine;
    }

    static void serve(Crew* crew, int number, long seen) {
        for (;;) {
            const auto called = [&] { return crew->closing || crew->call != seen; };
            look_for(called);
            {
                std::unique_lock<std::mutex> guard(crew->lock);
                crew->begin.wait(guard, called);
                if (crew->closing) return;
                seen = crew->call;
                if (number >= crew->wanted) continue;
            }
            crew->work(number + 1);
            std::lock_guard<std::mutex> guard(crew->lock);
            if (--crew->busy == 0) crew->over.notify_one();
        }
    }

    // Look for a while, some 50 microseconds, whether something is so: mostly it soon is, and to sleep and be woken takes longer.
    template <class IsSo>
    static void look_for(IsSo is_so) {
        for (int i = 0; i < 1000 && !is_so(); ++i) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }
};

}  // namespace fedloom

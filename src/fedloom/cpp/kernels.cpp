// The training engine and the kernels of merges, codecs and large convolutions in one module: much of the time to build one goes
// into the same headers. One build per instruction set, see CMakeLists.txt.
#include "../coding/cpp/draws.h"
#include "../mixing/cpp/order.h"
#include "../training/cpp/engine.h"
#include "../training/cpp/tiles.h"

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
    m.doc() = "FedLoom's training engine and kernels, built for one instruction set.";
    m.def("best_instructions", &best_instructions, "Which of the builds suits this processor.");
    engine::define(m);
    order::define(m);
    draws::define(m);
    tiles::define(m);
}

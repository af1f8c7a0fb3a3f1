// Kernels of merges, codecs and large convolutions in one module: most of the time to build one goes into the same headers. One
// build per instruction set, see CMakeLists.txt.
#include "../coding/cpp/draws.h"
#include "../mixing/cpp/order.h"
#include "../training/cpp/tiles.h"

NB_MODULE(FEDLOOM_MODULE, m) {
    m.doc() = "Kernels of merges, codecs and large convolutions, built for one instruction set.";
    order::define(m);
    draws::define(m);
    tiles::define(m);
}

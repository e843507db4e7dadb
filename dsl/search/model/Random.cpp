#include "dsl/search/model/Random.h"

#include <cmath>
#include <numbers>

namespace kiln::search {

uint64_t next_random(uint64_t &state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

double next_uniform(uint64_t &state) {
    return static_cast<double>(next_random(state) >> 11) * 0x1p-53;
}

double next_normal(uint64_t &state) {
    double u = 1 - next_uniform(state), v = next_uniform(state);
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

} // namespace kiln::search

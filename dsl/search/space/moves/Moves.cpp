#include "dsl/search/space/moves/Moves.h"

namespace kiln::search {

const std::vector<Move> &all_moves() {
    static const std::vector<Move> moves = {
        {"tile", 6, tile_steps},   {"place", 3, place_steps},       {"vector", 1, vector_steps},
        {"order", 1, order_steps}, {"reduce", 2, reduce_steps},     {"rfactor", 1, rfactor_steps},
        {"wrap", 1.5, wrap_steps}, {"storage", 0.7, storage_steps}, {"parallel", 0.5, parallel_steps},
        {"tail", 0.5, tail_steps},
    };
    return moves;
}

} // namespace kiln::search

/** \file
 * What both ways of running share: the views' arrays with account of what was written, the variables that are the same
 * for a whole block, and the fault that ends a run.
 */
#pragma once

#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/interpret/Values.h"

namespace kiln::tile {

/// Ends the run; its text becomes Outcome::fault.
struct Fault {
    std::string text;
};

using Variables = std::map<std::string, int64_t>; ///< loops and `wg`

class Run {
public:
    Run(const Kernel &k, Memory &memory, Outcome &out);

    const Kernel &k;
    Memory &memory;
    Outcome &out;

    Array &array(const std::string &view) const;
    /// `x.extent.0`, `x.stride.1`, `x.min.0`; throws Fault for a name that nothing has.
    int64_t variable(const std::string &name, const Variables &scope) const;
    int64_t integer(const Expr &e, const Variables &scope) const;
    /// Loop variables of the grid for the block tile number `n`; tiles of one cluster have numbers in a row.
    Variables grid_variables(int64_t n) const;
    /// Block tiles, with those past the end that fill up clusters.
    int64_t grid_size() const;

    /// Index of the element at the region's bases plus the axes' coordinates.
    std::vector<int64_t> bases(const Region &r, const Variables &scope) const;
    /// The view at many places; 0 outside. `by_warps`: 32 places in a row are the lanes of one request, and are counted.
    ColumnPtr read_view(const std::string &view, const std::vector<ColumnPtr> &at, const Mask &mask,
                        bool by_warps) const;
    /// Writes an output's element; a second write of it is a fault. Elements outside are left out: returns false.
    bool write(const std::string &view, const std::vector<int64_t> &index, const Column &value, size_t i);
    bool write(const std::string &view, const std::vector<int64_t> &index, double value);
    /// Every element of every output must have been written, every counter be zero again.
    void check_written() const;
    /// What `writer` wrote to workspaces is seen by all from now on.
    void publish(int64_t writer);
    /// One more block has come to the counter; whether it is the last of `parts`.
    bool arrive(const Region &at, int64_t parts, const Variables &scope);
    int64_t writer = 0; ///< who writes to workspaces now: a warpgroup of a block

private:
    std::map<std::string, std::vector<uint8_t>> written_; ///< by the element's offset
    /// Of workspaces, by the element's offset: 0 nobody wrote it, -1 all see what was written, else the writer + 1.
    std::map<std::string, std::vector<int64_t>> shares_;
    std::map<int64_t, std::vector<std::pair<std::string, int64_t>>>
        hidden_; ///< by writer: what others do not see

    void mark(const std::string &view, const Array &a, int64_t at, const std::vector<int64_t> &index);
};

/// Places of which there is one: loop bounds, indices of regions, conditions.
class OnePlace : public Places {
public:
    OnePlace(const Run &run, const Variables &scope) : run_(run), scope_(scope) {}
    size_t count() const override { return 1; }
    ColumnPtr variable(const std::string &name) override;
    ColumnPtr view(const std::string &name, const std::vector<ColumnPtr> &at, const Mask &mask) override;

private:
    const Run &run_;
    const Variables &scope_;
};

std::string at_text(const std::vector<int64_t> &index); ///< `(3, 4)`

/// One request of a warp's lanes at these bytes.
void count_sectors(Accesses &to, std::vector<int64_t> lanes, int bytes);
void count_banks(Accesses &to, const std::vector<int64_t> &lanes, int bytes);

void run_early(Run &run);
void run_final(Run &run, const Mode &mode);

} // namespace kiln::tile

/** \file
 * What the printers of all languages share: names, parameters, loops over the registers of a tile, maps, reductions,
 * loads and stores of views, products by multiply and add, the walk over block tiles.
 *
 * A register tile is an array that only unrolled loops index, so that it stays in registers. Two neighbours of a 16-bit
 * tile along its first register digit share a u32.
 */
#pragma once

#include "dsl/tile/emit/Dialect.h"
#include "dsl/tile/emit/Emit.h"

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace kiln::tile {

struct RunEnd;

/// A loop over the registers of a layout: one C variable for each digit ("" where it has one value).
struct Digits {
    RegisterLayout layout;
    std::vector<std::string> names;
    std::vector<int> from, to; ///< values that the loop over a digit takes: all, unless said otherwise
    explicit Digits(RegisterLayout l);
    /// Only registers of `extent` neighbours of that digit from `first` on; a digit that the layout lacks has one value.
    void restrict(const std::string &axis, int stride, int first, int extent);
    /// Elements along the first digit, which are handled together.
    int run() const { return layout.registers.empty() ? 1 : layout.registers[0].extent; }
    /// Σ factor·variable; "0" for none.
    std::string sum(const std::vector<int> &factors, int constant = 0) const;
    /// The register's own number, among those that the loops take: the factors, and what is added.
    std::vector<int> own() const;
    int own_start() const;
};

class Printer {
public:
    Printer(const Kernel &k, Dialect &dialect, const EmitOptions &options);
    virtual ~Printer() = default;

protected:
    friend class ElementC;

    const Kernel &k_;
    Dialect &dialect_;
    EmitOptions options_;

    // ---- text
    std::string out_;
    int indent_ = 1;
    void line(const std::string &text);
    void open(const std::string &head); ///< head {
    void close(const std::string &tail = "");
    void otherwise(); ///< } else {
    /// What `print` prints, apart.
    std::string apart(const std::function<void()> &print);
    std::string helpers_; ///< functions of this kernel's own, before it
    int serial_ = 0;
    std::string fresh(const std::string &stem) { return stem + std::to_string(serial_++); }

    // ---- names
    std::map<std::string, std::string> ids_;
    std::string id(const std::string &prefix, const std::string &name); ///< a C identifier of its own
    std::string array(const std::string &tile); ///< of the tile's registers; notes that it must be declared
    std::set<std::string> arrays_;
    void declare_arrays();

    // ---- parameters
    std::vector<KernelParam> pointers_, values_, reciprocals_;
    std::map<std::string, EmittedKernel::Need> needs_;
    std::string pointer(const std::string &view);
    /// Whether it runs over blocks or counts a loop inside the kernel.
    bool is_loop(const std::string &variable) const;
    std::string value(const std::string &variable); ///< `x.extent.0`
    std::string value(const std::string &name, const Expr &e);
    std::string reciprocal(const std::string &name, const Expr &e);
    void need(const std::string &view, int address, int stride);
    std::string storage(Halide::Type t) const; ///< the C type of an element in memory

    // ---- threads
    /// The threads that run what is printed: `warpgroups` of 128 from `first` on. All of the block where nothing else is.
    struct Crew {
        int first = 0, warpgroups = 1;
        bool whole = true;   ///< the whole block
        bool single = false; ///< one thread of the crew
        int threads() const { return 128 * warpgroups; }
    } crew_;
    std::vector<std::pair<std::string, std::string>> offsets_; ///< expression -> name of a thread's offset
    std::string thread_digit(int below, int extent) const;     ///< thread / below % extent
    std::string thread_offset(const std::string &axis, const RegisterLayout &l);
    void declare_offsets();
    virtual std::string thread_index() const = 0; ///< within the block
    virtual void barrier() = 0;                   ///< of the threads that a layout is dealt to
    /// " + wg * bytes" where each warpgroup of the crew takes tiles of its own (ping-pong).
    std::string own_part(int bytes) const;
    virtual std::string shuffle_xor(const std::string &value, int mask) = 0; ///< "": no shuffles
    virtual std::string any_lane(const std::string &condition) = 0;          ///< of a warp; "": nobody asks
    virtual std::string block_index() const = 0;
    virtual std::string block_count() const = 0;

    // ---- elements
    bool packed(const Tile &t) const;
    int words(const Tile &t) const; ///< of the array
    /// Factors that make the digits of `over` the number of the tile's register.
    std::vector<int> factors(const Tile &t, const RegisterLayout &over) const;
    std::string coordinate(const std::string &axis, const Digits *d);
    std::string register_offset(const std::string &axis, const Digits &d); ///< what the register adds to it
    std::string element(const Tile &t, const Digits *d);                   ///< as a value in C
    std::string word(const Tile &t, const Digits &d); ///< the u32 of two packed elements, or the element
    void open_digits(const Digits &d, size_t from = 0);
    void close_digits(const Digits &d, size_t from = 0);
    std::string scalar(const Expr &e); ///< the same for the whole crew
    void map(const std::string &dst, const Expr &value);
    /// Whether any thread of the warp has a factor other than 1; "" where that is not worth asking.
    std::string scales(const Map &m);
    /// Into the array `to`, at the registers of the digits' own number.
    void compute(const std::string &to, const Tile &t, const Digits &d, const Expr &value);
    void compute_tile(const std::string &to, const Tile &t, const Digits &d, const Expr &value, bool by_runs);
    void reduce(const Reduce &r, const std::string &func);
    void reduce_registers(const Reduce &r, const Digits &d, const Expr &value, const std::string &sum,
                          bool by_twos, bool by_runs);
    /// Prints a value that ends along the run twice: for ends that are a multiple of the run (`by_runs`), and for others.
    void by_ends(const Expr &value, const Digits &d,
                 const std::function<void(const Expr &, bool by_runs)> &print);
    /// Prints a run's elements, `by_runs`: all as what lies before the end or all as what lies behind.
    void run(const Expr &value, const Digits &d, bool by_runs,
             const std::function<void(const Expr &)> &print);
    std::optional<RunEnd> run_end(const Expr &value, const Digits &d) const;
    void lane_reduce(const LaneReduce &r);
    /// The reductions of so many blocks of the cluster become one, in all of them.
    virtual void combine_blocks(const std::string &array, const Tile &t, ReduceOp op, int blocks);
    void move(const std::string &dst, const std::string &src);
    /// Adds up over the thread digits `which` says.
    void combine_threads(const std::string &array, const Tile &t, ReduceOp op, const RegisterLayout &over,
                         const std::function<bool(const LayoutPart &)> &which);
    std::string combine(ReduceOp op, Halide::Type type, const std::string &a, const std::string &b);

    // ---- memory
    int extra_ = 0;                            ///< bytes that the printer adds behind what the kernel planned
    int scratch_extra_ = 0;                    ///< of them for reductions over warps
    int planned_end() const;                   ///< byte behind the planned ones
    std::map<std::string, bool> slot_of_;      ///< rings whose slot variable the crew has
    std::string slot(const std::string &ring); ///< C name of the current slot; "0"
    std::string shared_base(const Tile &t);    ///< byte of the tile's current slot
    std::string shared_at(const std::string &name, const SharedLayout &l, const std::string &inner,
                          const std::string &outer); ///< byte in the tile
    /// index along each dimension -> element offset, and the test that it is inside the view ("" where nothing can fail)
    std::string view_offset(const std::string &view, const std::vector<std::string> &index);
    Expr index_of(const ViewDim &d) const;
    /// Neighbours, a power of two, that one access may take at `index` when axis `along` advances by one each.
    /// `tested`: the kernel itself asks whether the view is aligned so.
    int neighbours(const std::string &view, const std::vector<Expr> &index, const std::string &along,
                   const RegisterLayout &over, int most, bool tested = false);
    void global_store(const GlobalStore &s);
    void plain_copy(const std::string &dst, const Region &from, CopyKind kind);
    void copy_runs(const Tile &t, const Region &from, int run, bool async);
    std::string is_aligned(const std::string &view, int bytes);
    virtual void async_copy(const std::string &to, const std::string &from, const std::string &inside,
                            int bytes, int element_bytes);

    // ---- statements
    virtual void statement(const Stmt &s);
    void body(const Body &b);
    void loop(const For &f);
    /// Where it is not, the compiler is spared the work.
    virtual bool worth_unrolling(const For &) const { return true; }
    void branch(const If &i);
    void fma_product(const Mma &m);
    /// Address in shared memory of the tile's element; the coordinate along `fixed_axis` is the text `fixed`.
    std::string shared_element(const Tile &t, const Digits &d, const std::string &fixed_axis = "",
                               const std::string &fixed = "");
    void load_operand(const Tile &t, const Digits &own, const std::vector<int> &number,
                      const std::string &values, const std::string &axis, const std::string &k, int steps,
                      Halide::Type type);
    virtual void product(const Mma &m, const std::string &func) = 0;
    void tile_loop(const TileLoop &t);
    /// The variables of the grid loops for the tile, or cluster of tiles, of that number.
    void tile_coordinates(const std::string &tile);
    bool work_grows(const std::string &grid_loop) const;
    void cluster_coordinates(const std::string &tile, const std::vector<GridLoop> &clusters,
                             const std::function<std::string(size_t)> &name,
                             const std::function<std::string(size_t)> &count);
    std::string of_clusters(const std::string &blocks) const;
    static Expr clusters_along(const GridLoop &g);
    std::string comment(const Stmt &s) const;
    [[noreturn]] void no_form(const std::string &what, const std::string &why) const;

    EmittedKernel finish(const std::string &text, const std::vector<KernelParam> &first) const;
};

} // namespace kiln::tile

/** \file
 * One call of a kernel as memory: what the arguments are, buffers with poison and red zones around them in
 * memory that a child shares, and what to fill inputs with.
 */
#pragma once

#include "dsl/check/Evaluator.h"
#include "dsl/generator/Generator.h"
#include "dsl/lower/LoadLibrary.h"
#include "dsl/support/Diagnostic.h"

#include <Halide.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// An argument of the compiled function. A Tuple output is several: `y.0`, `y.1`.
struct KernelArgument {
    enum class Kind { Scalar, Input, Output } kind = Kind::Input;
    std::string name;
    Halide::Type type;
    int rank = 0;
    int output = -1, value_index = 0; ///< of the evaluator, for outputs
};

/// A generator's algorithm: its arguments in the order of the call, and its reference.
class Algorithm {
public:
    /// Throws as create_generator does, and K0801.
    Algorithm(const std::string &generator, const std::map<std::string, std::string> &params,
              const Halide::Target &target);
    std::vector<KernelArgument> arguments;
    Evaluator &evaluator() { return *evaluator_; }

private:
    std::unique_ptr<Halide::Internal::AbstractGenerator> generator_;
    Halide::Pipeline pipeline_;
    std::unique_ptr<Evaluator> evaluator_;
};

enum class Fill { Integers, Random, Special };

struct Layout {
    int64_t row_padding = 0; ///< elements between the rows of every buffer of rank 2 and more
    /// The last element stands before a page that cannot be touched; the first is then aligned to nothing but
    /// its size.
    bool ends_at_guard = false;
};

/// Fills `count` elements. Integers: small whole numbers, of which float sums are exact. Random: normal numbers of
/// size 1, one in 256 of size 8. Special: the same with NaN, infinities, zeros of both signs, subnormal and large
/// numbers among them. Integer types get 0…7 in all cases, since they may be indices.
void fill_elements(void *data, int64_t count, const Halide::Type &type, Fill fill, uint64_t seed);

class Problem {
public:
    /// Throws K0805 where the workload lacks extents of an argument or has other ranks.
    Problem(const std::vector<KernelArgument> &arguments, const Workload &workload,
            const Layout &layout = {});
    ~Problem();
    Problem(const Problem &) = delete;
    Problem &operator=(const Problem &) = delete;

    /// Fills inputs, poisons outputs and all zones and gaps with NaN.
    void fill(Fill fill, uint64_t seed);
    void poison_outputs();
    /// Puts everything back to what the last fill() wrote.
    void restore();

    int count() const { return static_cast<int>(slots_.size()); }
    const KernelArgument &argument(int i) const { return arguments_[i]; }
    halide_buffer_t *buffer(int i);
    double scalar(int i) const { return slots_[i].scalar; }
    int64_t elements(int i) const;
    /// Bytes of each buffer's elements once: what a call must move at least.
    double bytes() const;

    /// Binds inputs, scalars and the outputs' extents to the reference.
    void bind(Evaluator &evaluator);
    /// Its arguments for a library, matched by name. Throws K0805 where the library has others.
    std::vector<void *> arguments_for(const LoadedLibrary &library);
    /// In the order of the algorithm's own arguments.
    std::vector<void *> arguments_in_order();
    /// What is on the host holds: the next call takes it to the device, the poison too.
    void touch_host();
    /// Calls the kernel with these arguments and brings outputs back to the host.
    int call(const LoadedLibrary &library, const kiln_call *call);
    /// Sets the device side free after calls on a GPU.
    void release(const LoadedLibrary &library, const kiln_call *call);

    /// Whether an output's element is still as poisoned.
    bool is_untouched(int i, const std::vector<int> &point) const;
    Value got(int i, const std::vector<int> &point) const;
    /// K0807 and K0808.
    std::optional<Diagnostic> find_damage() const;

private:
    struct Slot {
        halide_buffer_t buffer{};
        std::vector<halide_dimension_t> dims;
        uint8_t *zone = nullptr, *data = nullptr; ///< the writable range begins at zone
        size_t zone_bytes = 0, data_bytes = 0;    ///< data_bytes: from the first to the last element
        std::vector<uint8_t> copy; ///< of the zone as filled: inputs, gaps and zones must stay so
        double scalar = 0;
        uint64_t scalar_bits = 0;
    };
    std::vector<KernelArgument> arguments_;
    std::vector<Slot> slots_;
    uint8_t *memory_ = nullptr;
    size_t memory_bytes_ = 0;

    void *pointer(int i);
    /// Where the zone first differs from what was filled, outputs' own elements apart; its size where it does not.
    size_t first_damage(int i) const;
    int64_t offset(int i, const std::vector<int> &point) const;
    void for_each_row(int i, const std::function<void(int64_t first, int64_t count)> &row) const;
};

/// The workload at other sizes: each distinct extent is mapped to another, so that what was equal stays equal.
/// `odd`: no power of two and no multiple of a vector; `ones`: all 1; `zero N`: the N-th distinct extent is 0.
std::optional<Workload> resized(const Workload &workload, const std::string &how);

} // namespace kiln

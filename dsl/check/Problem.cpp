#include "dsl/check/Problem.h"

#include "dsl/generator/Create.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace kiln {

namespace {

using Halide::Type;

constexpr size_t red_zone = 4096;

[[noreturn]] void misfit(std::string message, std::vector<std::string> notes, std::string help) {
    Diagnostic d;
    d.code = "K0805";
    d.message = std::move(message);
    d.notes = std::move(notes);
    d.helps = {std::move(help)};
    throw Error(std::move(d));
}

/// A NaN that no arithmetic makes, so that an element that was never written is known from a computed NaN.
uint64_t poison_of(const Type &type) {
    if (!type.is_float()) {
        return 0xa5a5a5a5a5a5a5a5ull;
    }
    switch (type.bytes()) {
    case 2:
        return type.is_bfloat() ? 0x7fe5 : 0x7fa5;
    case 4:
        return 0x7fe5a5a5;
    default:
        return 0x7ff8a5a5a5a5a5a5ull;
    }
}

void fill_poison(uint8_t *from, size_t bytes, const Type &type) {
    uint64_t pattern = poison_of(type);
    size_t size = type.bytes();
    for (size_t i = 0; i + size <= bytes; i += size) {
        std::memcpy(from + i, &pattern, size);
    }
}

void store(void *data, int64_t i, const Type &type, double v) {
    auto *bytes = static_cast<uint8_t *>(data) + i * type.bytes();
    if (type.is_float()) {
        if (type.bytes() == 2) {
            uint16_t b = type.is_bfloat() ? Halide::bfloat16_t(v).to_bits() : Halide::float16_t(v).to_bits();
            std::memcpy(bytes, &b, 2);
        } else if (type.bytes() == 4) {
            auto f = static_cast<float>(v);
            std::memcpy(bytes, &f, 4);
        } else {
            std::memcpy(bytes, &v, 8);
        }
        return;
    }
    auto n = static_cast<int64_t>(v);
    std::memcpy(bytes, &n, type.bytes());
}

/// Small and fast; the standard's distributions cost more than the kernels.
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull) {}
    uint64_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state * 0x2545f4914f6cdd1dull >> 16;
    }
    double unit() { return static_cast<double>(next() & 0xffffffff) / 4294967296.0; }
};

size_t page() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

size_t up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

} // namespace

Algorithm::Algorithm(const std::string &generator, const std::map<std::string, std::string> &params,
                     const Halide::Target &target)
    : generator_(create_generator(generator, params, target)) {
    using namespace Halide::Internal;
    pipeline_ = generator_->build_pipeline();
    std::vector<KernelArgument> outputs;
    int output = 0;
    for (const AbstractGenerator::ArgInfo &info : generator_->arginfos()) {
        KernelArgument a;
        a.name = info.name;
        a.rank = info.dimensions;
        if (info.dir == ArgInfoDirection::Input) {
            a.kind =
                info.kind == ArgInfoKind::Scalar ? KernelArgument::Kind::Scalar : KernelArgument::Kind::Input;
            a.type = info.types.at(0);
            arguments.push_back(a);
            continue;
        }
        a.kind = KernelArgument::Kind::Output;
        a.output = output++;
        for (size_t v = 0; v < info.types.size(); v++) {
            a.type = info.types[v];
            a.value_index = static_cast<int>(v);
            a.name = info.types.size() > 1 ? fmt::format("{}.{}", info.name, v) : info.name;
            outputs.push_back(a);
        }
    }
    arguments.insert(arguments.end(), outputs.begin(), outputs.end());
    evaluator_ = std::make_unique<Evaluator>(pipeline_.outputs());
}

namespace {
std::array<double, 8> special_numbers(const Type &type) {
    bool is_half = type.bits() == 16 && !type.is_bfloat();
    // Products of two do not overflow: whether that happens depends on how factors are grouped and fused.
    double large = is_half ? 6e4 : 1e15;
    double subnormal = type.bits() == 64 ? 1e-310 : is_half ? 1e-6 : 1e-40;
    return {std::nan(""), INFINITY, -INFINITY, 0.0, -0.0, subnormal, large, -large};
}
} // namespace

void fill_elements(void *data, int64_t count, const Type &type, Fill fill, uint64_t seed) {
    Random random(seed);
    const std::array<double, 8> specials = special_numbers(type);
    for (int64_t i = 0; i < count; i++) {
        double v;
        if (!type.is_float()) {
            v = static_cast<double>(random.next() % (type.bits() == 1 ? 2 : 8));
        } else if (fill == Fill::Integers) {
            v = static_cast<double>(random.next() % 7) - 3;
        } else {
            // Sum of uniforms: near enough to normal, and never far out by chance.
            v = (random.unit() + random.unit() + random.unit() + random.unit() - 2) * 1.7320508;
            if (random.next() % 256 == 0) {
                v *= 8;
            }
            if (fill == Fill::Special && random.next() % 61 == 0) {
                v = specials[random.next() % specials.size()];
            }
        }
        store(data, i, type, v);
    }
}

Problem::Problem(const std::vector<KernelArgument> &arguments, const Workload &workload, const Layout &layout)
    : arguments_(arguments), slots_(arguments.size()) {
    auto extents_of = [&](const KernelArgument &a) {
        auto it = workload.extents.find(a.name);
        if (it == workload.extents.end()) {
            it = workload.extents.find(a.name.substr(0, a.name.find('.')));
        }
        std::vector<std::string> known;
        for (const auto &[name, e] : workload.extents) {
            known.push_back(name);
        }
        if (it == workload.extents.end()) {
            misfit(fmt::format("workload `{}` has no extents for `{}`", workload.name, a.name),
                   {fmt::format("it names `{}`", fmt::join(known, "`, `"))},
                   "name every buffer of the generator");
        }
        if (static_cast<int>(it->second.size()) != a.rank) {
            misfit(fmt::format("workload `{}` gives `{}` {} extents, it has {} dimensions", workload.name,
                               a.name, it->second.size(), a.rank),
                   {}, "give one extent a dimension, the innermost first");
        }
        return it->second;
    };
    std::vector<size_t> starts(arguments.size());
    for (size_t i = 0; i < arguments.size(); i++) {
        const KernelArgument &a = arguments[i];
        Slot &slot = slots_[i];
        if (a.kind == KernelArgument::Kind::Scalar) {
            auto it = workload.scalars.find(a.name);
            slot.scalar = it != workload.scalars.end() ? it->second : a.type.is_float() ? 1.25 : 1;
            slot.scalar = a.type.is_float() ? round_to(slot.scalar, a.type) : std::trunc(slot.scalar);
            store(&slot.scalar_bits, 0, a.type, slot.scalar);
            continue;
        }
        int64_t stride = 1, last = 0;
        bool is_empty = false;
        for (int64_t extent : extents_of(a)) {
            if (extent < 0) {
                misfit(fmt::format("workload `{}` gives `{}` the extent {}", workload.name, a.name, extent),
                       {}, "an extent is 0 or more");
            }
            if (extent > INT32_MAX || stride > INT32_MAX) {
                misfit(fmt::format("workload `{}` gives `{}` an extent or a stride beyond 2^31 - 1",
                                   workload.name, a.name),
                       {}, "use smaller extents");
            }
            slot.dims.emplace_back(0, static_cast<int32_t>(extent), static_cast<int32_t>(stride), 0);
            is_empty = is_empty || extent == 0;
            last += extent > 0 ? (extent - 1) * stride : 0;
            stride = stride * std::max<int64_t>(extent, 1) + (slot.dims.size() == 1 ? layout.row_padding : 0);
        }
        slot.data_bytes = is_empty ? 0 : static_cast<size_t>(last + 1) * a.type.bytes();
        slot.zone_bytes = up(slot.data_bytes + 2 * red_zone, page());
        starts[i] = memory_bytes_ + page();
        memory_bytes_ = starts[i] + slot.zone_bytes + page();
    }
    memory_bytes_ = std::max(memory_bytes_, page());
    void *m = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (m == MAP_FAILED) {
        misfit(fmt::format("workload `{}` needs {} MiB, which this machine does not give", workload.name,
                           memory_bytes_ >> 20),
               {}, "use smaller extents");
    }
    memory_ = static_cast<uint8_t *>(m);
    for (size_t i = 0; i < arguments.size(); i++) {
        const KernelArgument &a = arguments[i];
        Slot &slot = slots_[i];
        if (a.kind == KernelArgument::Kind::Scalar) {
            continue;
        }
        slot.zone = memory_ + starts[i];
        mprotect(slot.zone - page(), page(), PROT_NONE);
        mprotect(slot.zone + slot.zone_bytes, page(), PROT_NONE);
        slot.data =
            layout.ends_at_guard ? slot.zone + slot.zone_bytes - slot.data_bytes : slot.zone + red_zone;
        slot.buffer.host = slot.data;
        slot.buffer.type = a.type;
        slot.buffer.dimensions = a.rank;
        slot.buffer.dim = slot.dims.data();
    }
}

Problem::~Problem() {
    munmap(memory_, memory_bytes_);
}

void Problem::for_each_row(int i, const std::function<void(int64_t, int64_t)> &row) const {
    const Slot &slot = slots_[i];
    int64_t count = elements(i);
    if (count == 0) {
        return;
    }
    if (slot.dims.empty()) {
        row(0, 1);
        return;
    }
    std::vector<int> at(slot.dims.size());
    int64_t rows = count / slot.dims[0].extent;
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = 0;
        for (size_t d = 1; d < at.size(); d++) {
            first += int64_t(at[d]) * slot.dims[d].stride;
        }
        row(first, slot.dims[0].extent);
        for (size_t d = 1; d < at.size() && ++at[d] == slot.dims[d].extent; d++) {
            at[d] = 0;
        }
    }
}

void Problem::fill(Fill fill, uint64_t seed) {
    for (int i = 0; i < count(); i++) {
        Slot &slot = slots_[i];
        if (arguments_[i].kind == KernelArgument::Kind::Scalar) {
            continue;
        }
        const Type type = arguments_[i].type;
        fill_poison(slot.zone, slot.zone_bytes, type);
        if (arguments_[i].kind == KernelArgument::Kind::Input) {
            uint64_t row_seed = seed * 1000003 + static_cast<uint64_t>(i) * 7919;
            for_each_row(i, [&](int64_t first, int64_t n) {
                fill_elements(slot.data + first * type.bytes(), n, type, fill, ++row_seed);
            });
            // A vector is one row, in which chance alone may leave out the NaN.
            if (int64_t part = elements(i) / 8;
                fill == Fill::Special && type.is_float() && slot.dims.size() == 1 && part > 1) {
                for (int64_t s = 0; s < 8; s++) {
                    store(slot.data, s * part + static_cast<int64_t>(seed % static_cast<uint64_t>(part)),
                          type, special_numbers(type)[s]);
                }
            }
        } else {
            // Rows that start at an odd element of the zone still get whole patterns.
            for_each_row(i, [&](int64_t first, int64_t n) {
                fill_poison(slot.data + first * type.bytes(), n * type.bytes(), type);
            });
        }
        slot.copy.assign(slot.zone, slot.zone + slot.zone_bytes);
    }
}

void Problem::poison_outputs() {
    for (int i = 0; i < count(); i++) {
        if (arguments_[i].kind == KernelArgument::Kind::Output) {
            std::copy(slots_[i].copy.begin(), slots_[i].copy.end(), slots_[i].zone);
        }
    }
}

void Problem::restore() {
    for (Slot &slot : slots_) {
        std::copy(slot.copy.begin(), slot.copy.end(), slot.zone);
    }
}

halide_buffer_t *Problem::buffer(int i) {
    return &slots_[i].buffer;
}

int64_t Problem::elements(int i) const {
    int64_t n = 1;
    for (const halide_dimension_t &d : slots_[i].dims) {
        n *= d.extent;
    }
    return n;
}

double Problem::bytes() const {
    double total = 0;
    for (int i = 0; i < count(); i++) {
        if (arguments_[i].kind != KernelArgument::Kind::Scalar) {
            total += static_cast<double>(elements(i)) * arguments_[i].type.bytes();
        }
    }
    return total;
}

void Problem::bind(Evaluator &evaluator) {
    for (int i = 0; i < count(); i++) {
        if (arguments_[i].kind == KernelArgument::Kind::Scalar) {
            evaluator.bind_scalar(arguments_[i].name, slots_[i].scalar);
        } else {
            evaluator.bind(arguments_[i].name, &slots_[i].buffer);
        }
    }
}

void *Problem::pointer(int i) {
    bool scalar = arguments_[i].kind == KernelArgument::Kind::Scalar;
    return scalar ? static_cast<void *>(&slots_[i].scalar_bits) : &slots_[i].buffer;
}

std::vector<void *> Problem::arguments_in_order() {
    std::vector<void *> arguments;
    for (int i = 0; i < count(); i++) {
        arguments.push_back(pointer(i));
    }
    return arguments;
}

std::vector<void *> Problem::arguments_for(const LoadedLibrary &library) {
    std::vector<void *> arguments;
    const kiln_entry_library &info = library.info();
    for (int a = 0; a < info.argument_count; a++) {
        for (int i = 0; i < count(); i++) {
            if (arguments_[i].name == info.arguments[a].name) {
                arguments.push_back(pointer(i));
            }
        }
    }
    if (static_cast<int>(arguments.size()) != info.argument_count || info.argument_count != count()) {
        misfit(
            fmt::format("library `{}` has {} arguments, the generator has {}, of which {} have the same name",
                        library.name(), info.argument_count, count(), arguments.size()),
            {}, "check the library with the generator and the parameters that it was built from");
    }
    return arguments;
}

void Problem::touch_host() {
    for (Slot &slot : slots_) {
        slot.buffer.set_host_dirty(true);
        slot.buffer.set_device_dirty(false);
    }
}

int Problem::call(const LoadedLibrary &library, const kiln_call *call) {
    std::vector<void *> arguments = arguments_for(library);
    touch_host();
    int status = library.call(call, arguments.data());
    for (int i = 0; i < count() && status == 0; i++) {
        if (arguments_[i].kind == KernelArgument::Kind::Output && slots_[i].buffer.device_dirty()) {
            status = library.copy_to_host(call, &slots_[i].buffer);
        }
    }
    return status;
}

void Problem::release(const LoadedLibrary &library, const kiln_call *call) {
    for (Slot &slot : slots_) {
        if (slot.buffer.device) {
            library.device_free(call, &slot.buffer);
        }
    }
}

int64_t Problem::offset(int i, const std::vector<int> &point) const {
    int64_t at = 0;
    for (size_t d = 0; d < point.size(); d++) {
        at += int64_t(point[d]) * slots_[i].dims[d].stride;
    }
    return at;
}

bool Problem::is_untouched(int i, const std::vector<int> &point) const {
    uint64_t pattern = poison_of(arguments_[i].type);
    size_t size = arguments_[i].type.bytes();
    return std::memcmp(slots_[i].data + offset(i, point) * size, &pattern, size) == 0;
}

Value Problem::got(int i, const std::vector<int> &point) const {
    return load_element(slots_[i].data, offset(i, point), arguments_[i].type);
}

size_t Problem::first_damage(int i) const {
    const Slot &slot = slots_[i];
    // What may have changed, as ranges of bytes: neighbouring rows are one.
    std::vector<std::pair<int64_t, int64_t>> open;
    if (arguments_[i].kind == KernelArgument::Kind::Output) {
        int64_t bytes = arguments_[i].type.bytes(), base = slot.data - slot.zone;
        for_each_row(i, [&](int64_t first, int64_t n) {
            int64_t from = base + first * bytes, to = from + n * bytes;
            if (!open.empty() && open.back().second == from) {
                open.back().second = to;
            } else {
                open.emplace_back(from, to);
            }
        });
        std::sort(open.begin(), open.end());
    }
    auto end = static_cast<int64_t>(slot.zone_bytes);
    open.emplace_back(end, end);
    int64_t at = 0;
    for (const auto &[from, to] : open) {
        if (at < from) {
            auto differs = std::mismatch(slot.zone + at, slot.zone + from, slot.copy.begin() + at);
            if (differs.first != slot.zone + from) {
                return static_cast<size_t>(differs.first - slot.zone);
            }
        }
        at = std::max(at, to);
    }
    return slot.zone_bytes;
}

std::optional<Diagnostic> Problem::find_damage() const {
    for (int i = 0; i < count(); i++) {
        const Slot &slot = slots_[i];
        const KernelArgument &a = arguments_[i];
        if (a.kind == KernelArgument::Kind::Scalar ||
            std::equal(slot.copy.begin(), slot.copy.end(), slot.zone)) {
            continue;
        }
        bool is_input = a.kind == KernelArgument::Kind::Input;
        size_t at = first_damage(i);
        if (at == slot.zone_bytes) {
            continue;
        }
        int64_t element = (static_cast<int64_t>(at) - (slot.data - slot.zone)) / a.type.bytes();
        auto end = static_cast<int64_t>(slot.data_bytes / a.type.bytes());
        bool in_data = element >= 0 && element < end;
        Diagnostic d;
        if (is_input && in_data) {
            d.code = "K0808";
            d.message = fmt::format("the kernel changed its input `{}` at element {}", a.name, element);
            d.helps = {"a kernel writes its outputs alone: look for a store with the wrong buffer"};
        } else {
            d.code = "K0807";
            d.message =
                in_data
                    ? fmt::format("the kernel wrote between the rows of `{}`, at element {}", a.name, element)
                : element < 0 ? fmt::format("the kernel wrote {} elements before `{}`", -element, a.name)
                              : fmt::format("the kernel wrote {} elements behind the end of `{}`",
                                            element - end + 1, a.name);
            d.helps = {"look at the tail of the outermost split: GuardWithIf writes nothing outside"};
        }
        return d;
    }
    return std::nullopt;
}

std::optional<Workload> resized(const Workload &workload, const std::string &how) {
    std::set<int64_t> distinct;
    for (const auto &[name, extents] : workload.extents) {
        distinct.insert(extents.begin(), extents.end());
    }
    std::map<int64_t, int64_t> to;
    int zero = how.rfind("zero ", 0) == 0 ? std::stoi(how.substr(5)) : -1;
    if (zero >= static_cast<int>(distinct.size())) {
        return std::nullopt;
    }
    int n = 0;
    // 61, 53, 47 …: primes, apart from each other so that distinct extents stay distinct.
    const int64_t primes[] = {13, 29, 37, 53, 61, 43, 23, 19, 17};
    for (int64_t e : distinct) {
        to[e] = how == "ones" ? 1
                : n == zero   ? 0
                : zero >= 0   ? std::min<int64_t>(e, 5)
                              : std::min(e, primes[n % 9]);
        n++;
    }
    Workload out = workload;
    out.name = workload.name + " " + how;
    for (auto &[name, extents] : out.extents) {
        for (int64_t &e : extents) {
            e = to[e];
        }
    }
    return out;
}

} // namespace kiln

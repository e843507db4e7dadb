#include "tests/correctness/tile_reference.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>

namespace kiln::tile {

namespace {

using namespace Halide;

/// Tiles read past the ends of arrays and find zeros; so does the reference, in arrays with this margin. Dimensions beyond
/// the second are read one index at a time.
constexpr int margin = 256, outer_margin = 4;

class Functions : public Internal::IRGraphVisitor {
public:
    std::vector<Internal::Function> all;
    void add(const Internal::Function &f) {
        if (seen_.insert(f.name()).second) {
            all.push_back(f);
            f.accept(this);
        }
    }

private:
    std::set<std::string> seen_;
    using Internal::IRGraphVisitor::visit;
    void visit(const Internal::Call *op) override {
        IRGraphVisitor::visit(op);
        if (op->call_type == Internal::Call::Halide) {
            add(Internal::Function(op->func));
        }
    }
};

std::string base_name(const std::string &name) {
    return name.substr(0, name.find('$'));
}

/// A zeroed buffer of these extents inside a larger one.
Buffer<> padded(Type type, const std::vector<int> &extents) {
    std::vector<int> large;
    for (int e : extents) {
        large.push_back(e + (large.size() < 2 ? margin : outer_margin));
    }
    Buffer<> b(type, large);
    std::memset(b.data(), 0, b.size_in_bytes());
    for (size_t d = 0; d < extents.size(); d++) {
        b.crop(static_cast<int>(d), 0, extents[d]);
    }
    return b;
}

int64_t offset_in(const Buffer<> &b, const std::vector<int64_t> &index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); d++) {
        at += index[d] * b.dim(static_cast<int>(d)).stride();
    }
    return at;
}

void each_index(const std::vector<int64_t> &extents,
                const std::function<void(const std::vector<int64_t> &)> &f) {
    int64_t n = 1;
    for (int64_t e : extents) {
        n *= e;
    }
    std::vector<int64_t> index(extents.size());
    for (int64_t i = 0; i < n; i++) {
        f(index);
        for (size_t d = 0; d < index.size() && ++index[d] == extents[d]; d++) {
            index[d] = 0;
        }
    }
}

} // namespace

std::vector<int64_t> wide(const std::vector<int> &extents) {
    return {extents.begin(), extents.end()};
}

Reference::Reference(Program program) : program_(std::move(program)) {}

Memory Reference::data(const Extents &extents, unsigned seed) const {
    Memory m;
    std::mt19937 random(seed);
    for (const ImageParam &p : program_.inputs) {
        Array a(p.type(), wide(extents.at(p.name())));
        a.each([&](int64_t at) {
            a.set(at, p.type().is_uint() ? double(random() % 3) : double(random() % 5) - 2);
        });
        m[p.name()] = std::move(a);
    }
    for (const Func &f : program_.outputs) {
        const std::string name = base_name(f.name());
        Array a(f.types().at(0), wide(extents.at(name)));
        a.each([&](int64_t at) { a.set(at, -77); });
        m[name] = std::move(a);
    }
    return m;
}

Memory Reference::outputs(const Memory &inputs, const Extents &extents) {
    if (!scheduled_) {
        Functions functions;
        for (const Func &f : program_.outputs) {
            functions.add(f.function());
        }
        for (Internal::Function &f : functions.all) {
            if (f.has_update_definition()) {
                Func(f).compute_root();
            }
        }
        scheduled_ = true;
    }
    for (ImageParam &p : program_.inputs) {
        const Array &a = inputs.at(p.name());
        Buffer<> b = padded(p.type(), extents.at(p.name()));
        const size_t bytes = static_cast<size_t>(a.type.bytes());
        each_index(a.extents, [&](const std::vector<int64_t> &index) {
            std::memcpy(reinterpret_cast<uint8_t *>(b.data()) + offset_in(b, index) * int64_t(bytes),
                        a.bytes.data() + a.offset(index) * int64_t(bytes), bytes);
        });
        p.set(b);
    }
    std::vector<Buffer<>> outs;
    for (const Func &f : program_.outputs) {
        outs.push_back(Buffer<>(f.types().at(0), extents.at(base_name(f.name()))));
    }
    try {
        Pipeline(program_.outputs)
            .realize(Realization(outs), Target("x86-64-linux-sse41-avx-f16c-fma-avx2-jit-no_asserts"));
    } catch (const Halide::Error &e) { // no std::exception: GoogleTest would not show its text
        throw std::runtime_error(e.what());
    }
    Memory m;
    for (size_t i = 0; i < outs.size(); i++) {
        const std::string name = base_name(program_.outputs[i].name());
        Array a(outs[i].type(), wide(extents.at(name)));
        std::memcpy(a.bytes.data(), outs[i].data(), a.bytes.size());
        m[name] = std::move(a);
    }
    return m;
}

std::string compare(const Memory &got, const Memory &wanted, double ulps) {
    std::string first;
    int64_t wrong = 0, all = 0;
    for (const auto &[name, w] : wanted) {
        const Array &g = got.at(name);
        const double unit = w.type.bits() == 32 ? 0x1p-23 : w.type.is_bfloat() ? 0x1p-7 : 0x1p-10;
        // Where terms cancel, the error is that of the terms: half of the array's usual magnitude counts as theirs.
        double squares = 0;
        w.each([&](int64_t at) { squares += std::isfinite(w.get(at)) ? w.get(at) * w.get(at) : 0; });
        const double usual = std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, w.size()))) / 2;
        each_index(w.extents, [&](const std::vector<int64_t> &index) {
            const double x = g.get(g.offset(index)), y = w.get(w.offset(index));
            all++;
            if (x == y || (std::isnan(x) && std::isnan(y)) ||
                std::fabs(x - y) <= ulps * unit * std::max(std::fabs(y), usual)) {
                return;
            }
            wrong++;
            if (first.empty()) {
                first = fmt::format("`{}` at (", name);
                for (size_t d = 0; d < index.size(); d++) {
                    first += fmt::format("{}{}", d ? ", " : "", index[d]);
                }
                first += fmt::format(") is {}, not {}", x, y);
            }
        });
    }
    return wrong ? fmt::format("{} ({} of {} differ)", first, wrong, all) : "";
}

} // namespace kiln::tile
